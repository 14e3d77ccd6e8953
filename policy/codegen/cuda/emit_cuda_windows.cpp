// Pools and convolutions of single channels, for GPUs: a thread reduces the elements of a window, or of a few
// consecutive windows, whose shared elements it reads once; then what follows the pool, per window.
#include <algorithm>
#include <set>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/cuda_vectors.hpp"
#include "policy/codegen/cuda/window_work.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_threads = 256;
constexpr int64_t k_unrolled = 96;  // elements of a thread, which are read before they are compared or added
constexpr int64_t k_unrolled_row = 32;

class cuda_windows_writer {
 public:
  explicit cuda_windows_writer(const emit_request& request)
      : w_(request), body_(w_.body()), layout_(window_layout_of(body_, request.options)) {
    threads_ = request.options[kernel_tunable::block] > 0 ? request.options[kernel_tunable::block] : k_threads;
    total_ = layout_.threads(body_);
    index_ = index_type(body_, total_);
    for (int n = 0; n < static_cast<int>(body_.nodes.size()); ++n)
      if (w_.is_needed(n) && w_.node(n).kind == node_kind::reduce) {
        reduced_.push_back(n);
        reach(w_.node(n).operands[0], front_);
      }
    for (const auto& r : body_.results)
      reach(r.node, behind_);
  }

  emitted_kernel write() {
    w_.open_kernel(threads_);
    w_.line(fmt::format("const {0} i = ({0})blockIdx.x * {1} + (int)threadIdx.x;", index_, threads_));
    const bool whole = total_ % threads_ == 0;
    if (!whole) w_.open(fmt::format("if (i < {})", total_));
    write_indices();
    write_row_loads(false);
    if (layout_.shares) write_shared_elements();
    open_windows();
    write_row_loads(true);
    if (!layout_.shares) write_own_elements();
    write_results();
    close_windows();
    if (!whole) w_.close();
    w_.close();
    auto out = w_.finished((total_ + threads_ - 1) / threads_, threads_);
    out.work[w_.request().name] = work_of_windows(body_, layout_, front_, behind_);
    return out;
  }

 private:
  // Adds the node and what it is made of, up to the reductions.
  void reach(int n, std::set<int>& into) {
    if (!into.insert(n).second || w_.node(n).kind == node_kind::reduce) return;
    for (const int o : w_.node(n).operands)
      reach(o, into);
  }

  // ---- indices ----
  bool is_several() const { return layout_.results > 1; }
  const body_operand& operand_of(int n) const { return body_.operands[static_cast<std::size_t>(w_.node(n).operand)]; }
  static int64_t along(const body_operand& o, int dimension) {
    return dimension < 0 ? 0 : o.strides[static_cast<std::size_t>(dimension)];
  }
  int64_t size_along(int dimension) const { return body_.domain[static_cast<std::size_t>(dimension)]; }
  index_expr row_index(int d) const {
    return index_expr::variable(in_window_ && is_several() && d == layout_.stacked ? "s" : fmt::format("i{}", d),
                                size_along(d));
  }

  void write_indices() {
    const std::vector<int> order = layout_.order(body_);  // the fastest one first
    std::vector<int64_t> extents;
    for (auto d = order.rbegin(); d != order.rend(); ++d)
      extents.push_back((size_along(*d) + layout_.step(*d) - 1) / layout_.step(*d));
    const auto at = split(index_expr::variable("i", total_), extents);
    for (std::size_t i = 0; i < order.size(); ++i)
      w_.line(fmt::format("const {} i{} = {};", index_, order[i],
                          (at[order.size() - 1 - i] * layout_.step(order[i])).text()));
  }

  index_expr row_offset(const body_operand& o, int64_t before = 0) const {
    index_expr sum = 0;
    for (int d = 0; d < body_.row_dims; ++d)
      sum = sum + row_index(d) * along(o, d);
    return sum + -before;
  }

  // As vectors of neighbouring windows are accessed.
  body_operand of_lanes(body_operand o) const {
    o.strides = {along(o, layout_.lane)};
    return o;
  }
  static body_operand of_pieces(body_operand o) {
    o.strides = {1};
    return o;
  }

  // ---- values that are one per window ----
  bool is_row_load(int n) const { return w_.node(n).kind == node_kind::load && w_.node(n).per_row; }
  bool is_vector(int n) const { return layout_.width > 1 && along(operand_of(n), layout_.lane) != 0; }
  std::string array(int n) const { return w_.variable(n) + "_q"; }

  // Those that differ between the windows of a thread, or those that do not.
  void write_row_loads(bool differ) {
    for (int n = 0; n < static_cast<int>(body_.nodes.size()); ++n) {
      if (!is_row_load(n) || !(front_.contains(n) || behind_.contains(n))) continue;
      const auto& o = operand_of(n);
      if ((is_several() && along(o, layout_.stacked) != 0) != differ) continue;
      const std::string type = c_type(w_.node(n).type), &pointer = w_.pointer(w_.node(n).operand);
      if (is_vector(n)) {
        w_.line(fmt::format("{} {}[{}];", type, array(n), layout_.width));
        write_vector_load(w_, of_lanes(o), layout_.width, pointer, row_offset(o).text(), array(n), "");
      } else {
        const std::string value = w_.element(n, pointer, row_offset(o).text());
        w_.line(fmt::format("const {} {} = {};", type, w_.variable(n), value));
      }
    }
  }

  void write_nodes(const std::set<int>& nodes, bool in_front) {
    for (const int n : nodes) {
      const body_node& from = w_.node(n);
      std::string value;
      switch (from.kind) {
        case node_kind::load:
          if (is_row_load(n) ? !is_vector(n) : lanes() == 1) continue;
          value = array(n) + "[l]";
          break;
        case node_kind::reduce:
          value = accumulator(n, layout_.shares ? "c" : "");
          break;
        case node_kind::window_size:
          value = window_size(from.counts_padding);
          break;
        case node_kind::pointwise:
          value = w_.expression(n);
          break;
        default:
          continue;
      }
      if (in_front && from.kind == node_kind::reduce) continue;
      w_.define(n, value);
    }
  }

  // Where a window begins in what it slides over, along one of its dimensions.
  std::string first_position(const body_window& w) const {
    const index_expr row = w.row < 0 ? 0 : row_index(w.row);
    return ((index_ == "int" ? row : row.as("int")) * w.walk.stride + -w.walk.padding).text();
  }

  std::string window_size(bool counts_padding) const {
    std::string out;
    for (const auto& w : body_.windows) {
      const auto& walk = w.walk;
      const std::string from = first_position(w);
      const std::string to =
          fmt::format("min({} + {}, {})", from, walk.kernel, walk.size + (counts_padding ? walk.padding : 0));
      const std::string size =
          counts_padding ? fmt::format("({} - ({}))", to, from) : fmt::format("({} - max({}, 0))", to, from);
      out += (out.empty() ? "" : " * ") + size;
    }
    return "(float)(" + out + ")";
  }

  // ---- elements ----
  // The elements that one round of the innermost loop takes: of neighbouring windows, or of one.
  int64_t lanes() const { return std::max(layout_.width, layout_.piece); }

  std::string accumulator(int n, const std::string& window) const {
    const std::string name = w_.variable(n) + "_a";
    if (layout_.width == 1) return fmt::format("{}[{}]", name, window.empty() ? "0" : window);
    return window.empty() ? name + "[l]" : fmt::format("{}[{} * {} + l]", name, window, layout_.width);
  }

  void declare_accumulators(const std::string& suffix, int64_t count) {
    for (const int n : reduced_) {
      std::string values;
      for (int64_t i = 0; i < count; ++i)
        values += (i > 0 ? ", " : "") + neutral(w_.node(n).reduction);
      w_.line(fmt::format("{} {}{}[{}] = {{{}}};", c_type(w_.node(n).type), w_.variable(n), suffix, count, values));
    }
  }

  bool is_masked(const body_window& w) const { return reaches_beyond(body_, layout_, w); }
  bool is_masked() const {
    return std::ranges::any_of(body_.windows, [&](const auto& w) { return is_masked(w); });
  }

  bool is_stacked_column(int d) const { return layout_.is_shared(body_, d); }
  index_expr column_index(int d) const {
    return is_stacked_column(d) ? index_expr::unknown("r") : index_expr::variable(fmt::format("k{}", d), size_along(d));
  }

  // Where the first element of the windows is, in each tensor and along each dimension that they may leave.
  void write_beginnings() {
    for (const int n : front_) {
      if (w_.node(n).kind != node_kind::load || is_row_load(n)) continue;
      const auto& o = operand_of(n);
      w_.line(
          fmt::format("const {} {}_at = {};", index_, w_.variable(n), row_offset(o, elements_before(body_, o)).text()));
    }
    for (std::size_t i = 0; i < body_.windows.size(); ++i) {
      const auto& w = body_.windows[i];
      if (!is_masked(w)) continue;
      w_.line(fmt::format("const int p{} = {};", i, first_position(w)));
    }
  }

  std::string inside() const {
    std::string out;
    for (std::size_t i = 0; i < body_.windows.size(); ++i) {
      const auto& w = body_.windows[i];
      if (!is_masked(w)) continue;
      index_expr at = index_expr::unknown(fmt::format("p{}", i));
      if (w.column >= 0) at = at + column_index(w.column) * w.walk.dilation;
      out += fmt::format("{}(unsigned){} < {}u", out.empty() ? "" : " && ", at.operand(), w.walk.size);
    }
    return out;
  }

  void write_element_loads() {
    for (const int n : front_) {
      if (w_.node(n).kind != node_kind::load || is_row_load(n)) continue;
      const auto& o = operand_of(n);
      index_expr sum = index_expr::unknown(w_.variable(n) + "_at");
      for (int d = body_.row_dims; d < static_cast<int>(body_.domain.size()); ++d)
        sum = sum + column_index(d) * along(o, d);
      const std::string at = sum.text();
      const std::string type = c_type(w_.node(n).type), &pointer = w_.pointer(w_.node(n).operand);
      if (lanes() == 1) {
        const std::string value = w_.element(n, pointer, at);
        const bool may_be_outside = is_masked() && o.slides;
        w_.line(fmt::format("const {} {} = {}{}{};{}", type, w_.variable(n), may_be_outside ? "inside ? " : "", value,
                            may_be_outside ? " : 0" : "", w_.remark(n)));
        continue;
      }
      w_.line(fmt::format("{} {}[{}]{};", type, array(n), lanes(), is_masked() ? " = {}" : ""));
      if (is_masked()) w_.open("if (inside)");
      write_vector_load(w_, layout_.width > 1 ? of_lanes(o) : of_pieces(o), lanes(), pointer, at, array(n), "");
      if (is_masked()) w_.close();
    }
  }

  // One element of a window, or a vector of them: read, computed, and added to the accumulators of that suffix.
  void write_element(const std::string& suffix) {
    if (is_masked()) w_.line(fmt::format("const bool inside = {};", inside()));
    write_element_loads();
    if (lanes() > 1) w_.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", lanes()));
    write_nodes(front_, true);
    for (const int n : reduced_) {
      const std::string into = w_.variable(n) + suffix + (layout_.width > 1 ? "[l]" : "[0]");
      std::string value = w_.spelled(w_.node(n).operands[0]);
      if (is_masked()) {
        const std::string known = w_.variable(n) + "_x";
        w_.line(fmt::format("const {} {} = inside ? {} : {};", c_type(w_.node(n).type), known, value,
                            neutral(w_.node(n).reduction)));
        value = known;
      }
      w_.line(accumulate(w_.node(n).reduction, into, value));
    }
    if (lanes() > 1) w_.close();
  }

  // Loops over the elements of a window, but not along the stacked windows that share them.
  void write_loops(const std::string& suffix) {
    const int64_t around = layout_.shares ? layout_.shared_extent(body_) : layout_.results;
    const bool all = layout_.own_columns(body_) * around / layout_.piece <= k_unrolled;
    std::vector<int> columns;
    for (int d = body_.row_dims; d < static_cast<int>(body_.domain.size()); ++d)
      if (!is_stacked_column(d)) columns.push_back(d);
    for (const int d : columns) {
      const int64_t step = d + 1 == static_cast<int>(body_.domain.size()) ? layout_.piece : 1;
      const std::string loop = fmt::format("for (int k{0} = 0; k{0} < {1}; {2})", d, size_along(d),
                                           step == 1 ? fmt::format("++k{}", d) : fmt::format("k{} += {}", d, step));
      if (all || (d == columns.back() && size_along(d) / step <= k_unrolled_row)) {
        w_.open_unrolled(loop);
      } else {
        w_.open(loop);
      }
    }
    if (columns.empty()) w_.open("");
    write_element(suffix);
    for (std::size_t i = 0; i < std::max<std::size_t>(columns.size(), 1); ++i)
      w_.close();
  }

  void write_own_elements() {
    declare_accumulators("_a", layout_.width);
    write_beginnings();
    write_loops("_a");
  }

  // Each row of elements across the stacked windows is reduced once, for all windows that it is in.
  void write_shared_elements() {
    const auto& walk = window_along(body_, layout_.stacked)->walk;
    declare_accumulators("_a", layout_.results * layout_.width);
    write_beginnings();
    const std::string loop = fmt::format("for (int r = 0; r < {}; ++r)", layout_.shared_extent(body_));
    if (layout_.own_columns(body_) * layout_.shared_extent(body_) / layout_.piece <= k_unrolled) {
      w_.open_unrolled(loop);
    } else {
      w_.open(loop);
    }
    declare_accumulators("_r", layout_.width);
    write_loops("_r");
    w_.open_unrolled(fmt::format("for (int c = 0; c < {}; ++c)", layout_.results));
    w_.open(fmt::format("if ((unsigned)(r - c * {}) < {}u)", walk.stride, walk.kernel));
    if (layout_.width > 1) w_.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", layout_.width));
    for (const int n : reduced_)
      w_.line(accumulate(w_.node(n).reduction, accumulator(n, "c"),
                         w_.variable(n) + (layout_.width > 1 ? "_r[l]" : "_r[0]")));
    if (layout_.width > 1) w_.close();
    w_.close();
    w_.close();
    w_.close();
  }

  // ---- results ----
  bool is_whole() const { return !is_several() || size_along(layout_.stacked) % layout_.results == 0; }

  void open_windows() {
    if (is_several()) {
      w_.open_unrolled(fmt::format("for (int c = 0; c < {}; ++c)", layout_.results));
      w_.line(fmt::format("const {} s = i{} + c;", index_, layout_.stacked));
      if (!is_whole()) w_.open(fmt::format("if (s < {})", size_along(layout_.stacked)));
    }
    in_window_ = true;
  }

  void close_windows() {
    in_window_ = false;
    if (is_several() && !is_whole()) w_.close();
    if (is_several()) w_.close();
  }

  void write_results() {
    for (std::size_t r = 0; r < body_.results.size(); ++r)
      w_.line(fmt::format("{} {}_q[{}];", c_type(w_.node(body_.results[r].node).type), w_.target(static_cast<int>(r)),
                          layout_.width));
    if (layout_.width > 1) {
      w_.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", layout_.width));
    } else {
      w_.open("");
    }
    write_nodes(behind_, false);
    for (std::size_t r = 0; r < body_.results.size(); ++r)
      w_.line(fmt::format("{}_q[{}] = {};", w_.target(static_cast<int>(r)), layout_.width > 1 ? "l" : "0",
                          w_.spelled(body_.results[r].node)));
    w_.close();
    for (std::size_t r = 0; r < body_.results.size(); ++r) {
      const std::string& target = w_.target(static_cast<int>(r));
      const body_operand& to = body_.results[r].target;
      write_vector_store(w_, of_lanes(to), layout_.width, target, row_offset(to).text(), target + "_q");
    }
  }

  kernel_writer w_;
  const kernel_body& body_;
  window_layout layout_;
  std::string index_;
  int64_t threads_ = 0, total_ = 0;
  bool in_window_ = false;        // a single window of a thread is being written
  std::vector<int> reduced_;      // the reductions
  std::set<int> front_, behind_;  // what they and the results are made of, apart from them
};

}  // namespace

std::span<const kernel_tunable> tunables_of_windows() {
  static const std::array all{declared(kernel_tunable::block, block_sizes,
                                       [](int64_t, const kernel_body&, const kernel_options&) { return true; }),
                              declared(kernel_tunable::items, items_of_threads,
                                       [](int64_t value, const kernel_body& body, const kernel_options& now) {
                                         kernel_options chosen = now;
                                         chosen.choose(kernel_tunable::items, value);
                                         return window_layout_of(body, chosen).results !=
                                                window_layout_of(body, now).results;
                                       })};
  return all;
}

emitted_kernel emit_cuda_windows(const emit_request& request) {
  return cuda_windows_writer(request).write();
}

}  // namespace cudal1
