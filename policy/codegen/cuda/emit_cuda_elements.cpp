// One index over all elements, for GPUs: each thread takes a few vectors of neighbouring elements, one block's width
// apart, and reads all of them before it computes, so that enough bytes are in flight.
#include <algorithm>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_threads = 256;
constexpr int64_t k_reads = 4;             // vectors of all operands that a thread reads before it computes
constexpr int64_t k_most_registers = 128;  // for what a thread reads, of 255
constexpr int64_t k_enough_blocks = 2 * large_gpu_processors;

class cuda_elements_writer {
 public:
  explicit cuda_elements_writer(const emit_request& request) : w_(request) {
    for (const auto size : w_.body().extents())
      elements_ *= size;
  }

  expected<emitted_kernel> write() {
    choose();
    w_.open_kernel(threads_);
    b_.emplace(threads_, std::max<int64_t>((vectors_ + threads_ * count_ - 1) / (threads_ * count_), 1));
    at_ = w_.add_tensors(*b_);
    for (std::size_t n = 0; n < w_.body().nodes.size(); ++n)
      if (const int each = static_cast<int>(n); is_single(each))
        b_->define(w_.variable(each), tile::value::element(w_.place_of(each, at_, 0), w_.node(each).type));
    const index_expr block = index_expr::unknown("blockIdx.x").as(index_);
    const index_expr first =
        b_->let(index_, "first", block * (threads_ * count_) + index_expr::unknown("threadIdx.x").as("int"));
    if (count_ > 1) {
      write_unrolled(first);
    } else {
      b_->guard(inside(first), [&] {
        const auto arrays = declare_arrays(width_, 1);
        write_loads(first, 0, width_, arrays);
        write_values(first, 0, width_, arrays);
      });
    }
    write_tail();
    return w_.finished(std::move(*b_).finish());
  }

 private:
  void choose() {
    const auto& body = w_.body();
    const auto& options = w_.request().options;
    threads_ = options[kernel_tunable::block] > 0 ? options[kernel_tunable::block] : k_threads;
    const int64_t items = options[kernel_tunable::items];
    const int64_t widest = widest_vector(body);
    width_ = vector_width(body, items > 0 ? std::min(items, widest) : widest);
    vectors_ = elements_ / width_;
    // What a thread reads at once has registers.
    int64_t arrays = 0, streams = 0;
    for (int n = 0; n < static_cast<int>(body.nodes.size()); ++n)
      arrays += is_array(n) ? array_width(n, width_) : 0;
    const int64_t most = std::max<int64_t>(k_most_registers / std::max<int64_t>(arrays, 1), 1);
    for (std::size_t i = 0; i < body.accesses.size(); ++i)
      streams += w_.operand_used(static_cast<int>(i)) && is_stream(body.accesses[i]);
    count_ =
        items > 0 ? std::clamp<int64_t>(items / width_, 1, most) : k_reads / std::clamp<int64_t>(streams, 1, k_reads);
    while (items == 0 && count_ > 1 && vectors_ / (threads_ * count_) < k_enough_blocks)
      count_ /= 2;
    index_ = index_type(body, elements_);
  }

  // Whether it is read from memory for each element, unlike a scalar, row or column that stays in the caches.
  bool is_stream(const body_access& o) const { return 2 * o.type.numel() >= elements_; }

  const body_access& operand_of(int n) const { return w_.body().accesses[static_cast<std::size_t>(w_.node(n).access)]; }
  // A load of one value for the whole kernel.
  bool is_single(int n) const {
    if (!w_.is_needed(n) || w_.node(n).kind != node_kind::load || !w_.node(n).operands.empty()) return false;
    const auto& strides = operand_of(n).strides;
    return std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
  }

  // Threads whose vector there is: all, where the blocks have no more.
  std::vector<tile::condition> inside(const index_expr& i) const {
    if (vectors_ % (threads_ * count_) == 0) return {};
    return {{i, tile::condition::how::below, vectors_}};
  }

  void write_unrolled(const index_expr& first) {
    const auto arrays = declare_arrays(width_, count_);
    const auto each_vector = [&](const std::function<void(const index_expr& i, const index_expr& k)>& body) {
      b_->loop("k", count_, tile::unrolling::whole, [&](const index_expr& k) {
        const index_expr i = b_->let(index_, "i", first + k * threads_);
        b_->guard(inside(i), [&] { body(i, k); });
      });
    };
    each_vector([&](const index_expr& i, const index_expr& k) { write_loads(i, k, width_, arrays); });
    each_vector([&](const index_expr& i, const index_expr& k) {
      write_indices(i, width_, index_use::writing);
      write_values(i, k, width_, arrays);
    });
  }

  bool is_array(int n) const { return w_.is_needed(n) && w_.node(n).kind == node_kind::load && !is_single(n); }
  int64_t array_width(int n, int64_t width) const {
    return access_of(operand_of(n), width) == vector_access::uniform ? 1 : width;
  }

  // In registers: what a thread reads of each load, for `count` vectors.
  using arrays = std::map<int, tile::buffer_id>;
  arrays declare_arrays(int64_t width, int64_t count) {
    arrays out;
    for (std::size_t each = 0; each < w_.body().nodes.size(); ++each) {
      const int n = static_cast<int>(each);
      if (is_array(n))
        out[n] =
            b_->array(w_.variable(n) + "_q", w_.node(n).type, tile::space::registers, {count * array_width(n, width)});
    }
    return out;
  }

  // Whether all elements have one stride, so that the element's number gives the offset.
  bool is_linear(const body_access& o) const {
    if (!o.divided.empty()) return false;
    for (std::size_t d = 1; d < o.strides.size(); ++d) {
      if (o.strides[d - 1] != o.strides[d] * w_.body().extent(d)) return false;
    }
    return true;
  }

  // The first element's index along each dimension, for vector `i`, where reading or writing needs it.
  enum class index_use { reading, writing };
  void write_indices(const index_expr& i, int64_t width, index_use use) {
    const bool reading = use == index_use::reading;
    const auto extents = w_.body().extents();
    bool straight = true;
    for (std::size_t n = 0; n < w_.body().nodes.size() && reading; ++n)
      straight = straight && (!is_array(static_cast<int>(n)) || is_linear(operand_of(static_cast<int>(n))));
    const bool both = count_ == 1 || width != width_;  // in one scope
    for (std::size_t r = 0; r < w_.body().results.size() && (!reading || both); ++r)
      straight = straight && is_linear(w_.body().results[r].target);
    if (straight) return;
    auto at = split_in_vectors(number(i, width), extents, width);
    for (std::size_t d = at.size(); d-- > 0;)
      b_->let("int", fmt::format("i{}", d), index_ == "int" ? at[d] : at[d].as("int"));
  }

  // The number of a vector, or an element.
  index_expr number(const index_expr& i, int64_t width) const {
    return index_expr::variable(i.text(), elements_ / width);
  }

  index_expr offset(const body_access& o, const index_expr& i, int64_t width) const {
    if (o.strides.empty()) return 0;
    if (is_linear(o)) return number(i, width) * (o.strides.back() * width);
    auto at = named_coordinates("i", w_.body().extents());
    for (auto& each : at)
      if (index_ != "int") each = each.as(index_);
    return offset_in(o, at);
  }

  void write_loads(const index_expr& i, const index_expr& k, int64_t width, const arrays& into) {
    write_indices(i, width, index_use::reading);
    for (const auto& [n, array] : into) {
      const auto& o = operand_of(n);
      const int64_t own = array_width(n, width);
      // A row's number is the same for all elements of a vector (vector_width).
      const auto row = [&, at = k](int index) {
        return is_single(index) ? w_.named(index) : tile::value::element({into.at(index), {at}}, w_.node(index).type);
      };
      b_->load(array, k * own, w_.place_of(n, at_, offset(o, i, width), row), own, step_of(o), form_of(o, own));
    }
  }

  void write_values(const index_expr& i, const index_expr& k, int64_t width, const arrays& from) {
    std::vector<tile::buffer_id> results;
    for (const auto& r : w_.body().results)
      results.push_back(
          b_->array(w_.target(index_of(r)) + "_q", w_.node(r.node).type, tile::space::registers, {width}));
    const auto each_element = [&](const index_expr& l) {
      std::vector<int> nodes;
      for (std::size_t n = 0; n < w_.body().nodes.size(); ++n)
        if (!is_single(static_cast<int>(n))) nodes.push_back(static_cast<int>(n));
      w_.define_nodes(*b_, nodes, [&](int n) {
        const int64_t own = array_width(n, width);
        return tile::value::element({from.at(n), {own > 1 ? k * own + l : k * own}}, w_.node(n).type);
      });
      for (std::size_t r = 0; r < results.size(); ++r)
        b_->store({results[r], {l}}, w_.named(w_.body().results[r].node));
    };
    if (width > 1)
      b_->loop("l", width, tile::unrolling::whole, each_element);
    else
      each_element(0);
    for (std::size_t r = 0; r < results.size(); ++r) {
      const auto& target = w_.body().results[r].target;
      b_->store(tile::access{at_.results.at(static_cast<int>(r)), {offset(target, i, width)}}, results[r], width,
                step_of(target), form_of(target, width));
    }
  }

  int index_of(const body_result& r) const { return static_cast<int>(&r - w_.body().results.data()); }
  // The elements after the last whole vector of a single axis.
  void write_tail() {
    const int64_t rest = elements_ - vectors_ * width_;
    if (rest == 0) return;
    using how = tile::condition::how;
    const index_expr thread = index_expr::unknown("threadIdx.x");
    b_->guard({{index_expr::unknown("blockIdx.x"), how::equal, 0}, {thread, how::below, rest}}, [&] {
      const index_expr e = b_->let(index_, "e", thread.as("int") + vectors_ * width_);
      const auto arrays = declare_arrays(1, 1);
      write_loads(e, 0, 1, arrays);
      write_values(e, 0, 1, arrays);
    });
  }

  kernel_writer w_;
  std::optional<tile::kernel_builder> b_;
  kernel_writer::tensors at_;
  std::string index_;
  int64_t elements_ = 1, threads_ = 0, width_ = 1, vectors_ = 0, count_ = 1;
};

}  // namespace

std::span<const kernel_tunable> tunables_of_elements() {
  static const std::array all{
      declared(kernel_tunable::block, block_sizes,
               [](int64_t, const kernel_body&, const kernel_options&) { return true; }),
      declared(kernel_tunable::items, items_of_threads, [](int64_t, const kernel_body& body, const kernel_options&) {
        return body.is_elementwise() && !transposed_dimension(body);
      })};
  return all;
}

expected<emitted_kernel> emit_cuda_elements(const emit_request& request) {
  return cuda_elements_writer(request).write();
}

}  // namespace cudal1
