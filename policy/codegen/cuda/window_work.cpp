#include "policy/codegen/cuda/window_work.hpp"

#include <algorithm>

#include "policy/codegen/cuda/warp_access.hpp"
#include "policy/tile/statement_work.hpp"

namespace cudal1 {

namespace {

constexpr double k_index = 10;          // instructions of a division by a constant, for the index along a dimension
constexpr double k_mask = 3;            // to find out whether an element exists
constexpr double k_reduce = 2;          // to compare an element with the greatest one so far, or to add it
constexpr double k_registers = 14;      // besides those for elements, roughly
constexpr double k_most_elements = 32;  // that a thread reads at once, roughly

class window_work {
 public:
  window_work(const kernel_body& body, const window_layout& l) : body_(body), l_(l) {}

  kernel_work of(const std::set<int>& front, const std::set<int>& behind) const {
    loop_work loop;
    add_elements(front, loop);
    add_windows(behind, loop);
    loop.operations += k_index * body_.row_dims();
    kernel_work out;
    out.registers = k_registers + windows() * width() + std::min(elements(), k_most_elements) / 2;
    out.loops.push_back(loop);
    return out;
  }

 private:
  double windows() const { return static_cast<double>(l_.results); }
  double width() const { return static_cast<double>(l_.width); }
  double elements() const {
    return static_cast<double>(l_.own_columns(body_) * (l_.shares ? l_.shared_extent(body_) : l_.results)) * width();
  }
  const body_node& node(int n) const { return body_.nodes[static_cast<std::size_t>(n)]; }
  const body_access& operand_of(int n) const { return body_.accesses[static_cast<std::size_t>(node(n).access)]; }
  int64_t size_along(int dimension) const { return body_.extent(static_cast<std::size_t>(dimension)); }
  static int64_t along(const body_access& o, int dimension) {
    return dimension < 0 ? 0 : o.strides[static_cast<std::size_t>(dimension)];
  }

  void add_elements(const std::set<int>& front, loop_work& into) const {
    const bool masked = std::ranges::any_of(body_.windows, [&](const auto& w) { return reaches_beyond(body_, l_, w); });
    double instructions = masked ? k_mask : 0;
    for (const auto& n : body_.nodes)
      instructions += n.kind == node_kind::reduce ? k_reduce : 0;
    for (const int n : front) {
      if (node(n).per_row) continue;
      instructions += node(n).kind == node_kind::load ? 1 : node(n).operations;
      if (node(n).kind != node_kind::load) continue;
      into.reads += elements() / static_cast<double>(std::max(l_.width, l_.piece));
      into.read_sectors += sectors(operand_of(n), distances(operand_of(n)));
    }
    into.operations += elements() * instructions;
  }

  void add_windows(const std::set<int>& behind, loop_work& into) const {
    double instructions = 1;
    for (const int n : behind) {
      instructions += node(n).kind == node_kind::pointwise ? node(n).operations : 1;
      if (node(n).kind != node_kind::load || 2 * operand_of(n).type.numel() < body_.rows()) continue;
      into.reads += windows();
      into.read_sectors += windows() * sectors(operand_of(n), {0});
    }
    for (const auto& r : body_.results)
      into.written_sectors += windows() * sectors(r.target, {0});
    into.operations += windows() * width() * instructions;
  }

  // The address of a thread's first element, for each thread of the first warp, in bytes from the tensor's first.
  std::vector<int64_t> addresses(const body_access& o) const {
    std::vector<int64_t> out;
    for (int64_t thread = 0; thread < lanes_of_a_warp; ++thread) {
      int64_t rest = thread, at = o.offset - elements_before(body_, o);
      for (const int d : l_.order(body_)) {
        const int64_t step = l_.step(d), size = (size_along(d) + step - 1) / step;
        at += rest % size * step * along(o, d);
        rest /= size;
      }
      out.push_back(at * size_of(o.type.type));
    }
    return out;
  }

  // How far the elements that a thread reads are from its first one, in bytes.
  std::vector<int64_t> distances(const body_access& o) const {
    std::vector<int64_t> out{0};
    const auto spread = [&](int64_t count, int64_t by) {
      const std::size_t known = out.size();
      for (int64_t i = 1; i < count; ++i)
        for (std::size_t each = 0; each < known; ++each)
          out.push_back(out[each] + i * by * size_of(o.type.type));
    };
    for (int d = body_.row_dims(); d < body_.dims(); ++d)
      spread(l_.is_shared(body_, d) ? l_.shared_extent(body_) : size_along(d), along(o, d));
    if (!l_.shares) spread(l_.results, along(o, l_.stacked));
    return out;
  }

  // Sectors that a warp reads or writes; what several of its threads or windows read counts once, since it stays in the
  // multiprocessor's cache.
  double sectors(const body_access& o, const std::vector<int64_t>& from) const {
    std::vector<int64_t> all;
    for (const int64_t first : addresses(o))
      for (const int64_t each : from)
        all.push_back(first + each);
    return tile::sectors_at(all, l_.width * size_of(o.type.type));
  }

  const kernel_body& body_;
  const window_layout& l_;
};

}  // namespace

kernel_work work_of_windows(const kernel_body& body, const window_layout& l, const std::set<int>& front,
                            const std::set<int>& behind) {
  return window_work(body, l).of(front, behind);
}

}  // namespace cudal1
