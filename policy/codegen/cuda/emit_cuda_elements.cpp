// One index over all elements, for GPUs: each thread takes a few vectors of neighbouring elements, one block's width
// apart, and reads all of them before it computes, so that enough bytes are in flight.
#include <algorithm>

#include "policy/codegen/c_text.hpp"
#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/cuda_vectors.hpp"
#include "policy/codegen/cuda/warp_access.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_threads = 256;
constexpr int64_t k_reads = 4;      // vectors of all operands that a thread reads before it computes
constexpr double k_index = 10;      // instructions of a division by a constant, for the index along a dimension
constexpr double k_registers = 16;  // beside those for elements, roughly
constexpr int64_t k_enough_blocks = 2 * large_gpu_processors;

class cuda_elements_writer {
 public:
  explicit cuda_elements_writer(const emit_request& request) : w_(request) {
    for (const auto size : w_.body().domain)
      elements_ *= size;
  }

  emitted_kernel write() {
    choose();
    w_.open_kernel(threads_);
    for (std::size_t n = 0; n < w_.body().nodes.size(); ++n) {
      if (is_single(static_cast<int>(n))) write_single(static_cast<int>(n));
    }
    w_.line(fmt::format("const {0} first = ({0})blockIdx.x * {1} + (int)threadIdx.x;", index_, threads_ * count_));
    if (count_ > 1) {
      write_unrolled();
    } else {
      open_guard("first");
      write_loads("first", "0", width_);
      write_values("first", "0", width_);
      close_guard();
    }
    write_tail();
    w_.close();
    auto out = w_.finished(std::max<int64_t>((vectors_ + threads_ * count_ - 1) / (threads_ * count_), 1), threads_);
    out.work[w_.request().name] = work();
    return out;
  }

 private:
  void choose() {
    const auto& body = w_.body();
    const auto& options = w_.request().options;
    threads_ = options.threads > 0 ? options.threads : k_threads;
    const int64_t items = options.items;
    const int64_t widest = widest_vector(body);
    width_ = vector_width(body, items > 0 ? std::min(items, widest) : widest);
    vectors_ = elements_ / width_;
    int64_t streams = 0;
    for (std::size_t i = 0; i < body.operands.size(); ++i)
      streams += w_.operand_used(static_cast<int>(i)) && is_stream(body.operands[i]);
    count_ = items > 0 ? std::max<int64_t>(items / width_, 1) : k_reads / std::clamp<int64_t>(streams, 1, k_reads);
    while (items == 0 && count_ > 1 && vectors_ / (threads_ * count_) < k_enough_blocks)
      count_ /= 2;
    index_ = index_type(elements_);
  }

  // Whether it is read from memory for each element, unlike a scalar, row or column that stays in the caches.
  bool is_stream(const body_operand& o) const { return 2 * o.type.numel() >= elements_; }

  const body_operand& operand_of(int n) const {
    return w_.body().operands[static_cast<std::size_t>(w_.node(n).operand)];
  }
  // A load of one value for the whole kernel.
  bool is_single(int n) {
    if (!w_.is_needed(n) || w_.node(n).kind != node_kind::load || !w_.node(n).operands.empty()) return false;
    const auto& strides = operand_of(n).strides;
    return std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
  }
  void write_single(int n) {
    w_.line(fmt::format("const {} {} = {};", c_type(w_.node(n).type), w_.variable(n),
                        loaded(operand_of(n).type.type, w_.pointer(w_.node(n).operand) + "[0]")));
  }

  std::string array(int n) const { return w_.variable(n) + "_q"; }
  bool whole() const { return vectors_ % (threads_ * count_) == 0; }
  void open_guard(const std::string& i) {
    if (!whole()) w_.open(fmt::format("if ({} < {})", i, vectors_));
  }
  void close_guard() {
    if (!whole()) w_.close();
  }

  void write_unrolled() {
    for (std::size_t n = 0; n < w_.body().nodes.size(); ++n)
      declare(static_cast<int>(n), count_);
    const std::string i = fmt::format("const {} i = first + k * {};", index_, threads_);
    const auto open = [&] {
      w_.open_unrolled(fmt::format("for (int k = 0; k < {}; ++k)", count_));
      w_.line(i);
      open_guard("i");
    };
    const auto close = [&] {
      close_guard();
      w_.close();
    };
    open();
    write_loads("i", "k", width_);
    close();
    open();
    write_indices("i", width_, false);
    write_values("i", "k", width_);
    close();
  }

  bool is_array(int n) { return w_.is_needed(n) && w_.node(n).kind == node_kind::load && !is_single(n); }
  int64_t array_width(int n, int64_t width) const {
    return access_of(operand_of(n), width) == vector_access::uniform ? 1 : width;
  }

  void declare(int n, int64_t count) {
    if (is_array(n))
      w_.line(fmt::format("{} {}[{}];", c_type(w_.node(n).type), array(n), count * array_width(n, width_)));
  }

  // Whether all elements have one stride, so that the element's number gives the offset.
  bool is_linear(const body_operand& o) const {
    for (std::size_t d = 1; d < o.strides.size(); ++d) {
      if (o.strides[d - 1] != o.strides[d] * w_.body().domain[d]) return false;
    }
    return true;
  }

  // The first element's index along each dimension, for vector `i`, where reading or writing needs it.
  void write_indices(const std::string& i, int64_t width, bool reading) {
    const auto& domain = w_.body().domain;
    bool straight = true;
    for (std::size_t n = 0; n < w_.body().nodes.size() && reading; ++n)
      straight = straight && (!is_array(static_cast<int>(n)) || is_linear(operand_of(static_cast<int>(n))));
    const bool both = count_ == 1 || width != width_;  // in one scope
    for (std::size_t r = 0; r < w_.body().results.size() && (!reading || both); ++r)
      straight = straight && is_linear(w_.body().results[r].target);
    if (straight) return;
    auto at = split_in_vectors(number(i, width), domain, width);
    for (auto& each : at)
      if (index_ != "int") each = each.as("int");
    w_.write_coordinates("i", at);
  }

  // Of a vector, or an element.
  index_expr number(const std::string& i, int64_t width) const { return index_expr::variable(i, elements_ / width); }

  std::string offset(const body_operand& o, const std::string& i, int64_t width) const {
    if (o.strides.empty()) return "0";
    if (is_linear(o)) return (number(i, width) * (o.strides.back() * width)).text();
    auto at = named_coordinates("i", w_.body().domain);
    for (auto& each : at)
      if (index_ != "int") each = each.as(index_);
    return offset_of(at, o.strides).text();
  }

  void write_loads(const std::string& i, const std::string& k, int64_t width) {
    if (count_ == 1 || width != width_) {
      for (std::size_t n = 0; n < w_.body().nodes.size(); ++n) {
        if (is_array(static_cast<int>(n)))
          w_.line(fmt::format("{} {}[{}];", c_type(w_.node(static_cast<int>(n)).type), array(static_cast<int>(n)),
                              array_width(static_cast<int>(n), width)));
      }
    }
    write_indices(i, width, true);
    for (std::size_t each = 0; each < w_.body().nodes.size(); ++each) {
      const int n = static_cast<int>(each);
      if (!is_array(n)) continue;
      const auto& o = operand_of(n);
      const int64_t own = array_width(n, width);
      const std::string at = k == "0" ? "" : own == 1 ? k : fmt::format("k * {}", own);
      // A row's number is the same for all elements of a vector (vector_width).
      const auto number = [&](int index) {
        return is_single(index) ? w_.variable(index)
                                : fmt::format("{}[{}]", array(index), k == "0" || at.empty() ? "0" : k);
      };
      write_vector_load(w_, o, own, w_.pointer(w_.node(n).operand), w_.looked_up(n, offset(o, i, width), number),
                        array(n), at);
    }
  }

  void write_values(const std::string& i, const std::string& k, int64_t width) {
    for (const auto& r : w_.body().results)
      w_.line(fmt::format("{} {}_q[{}];", c_type(w_.node(r.node).type), w_.target(index_of(r)), width));
    if (width > 1) {
      w_.open_unrolled(fmt::format("for (int l = 0; l < {}; ++l)", width));
    }
    for (std::size_t each = 0; each < w_.body().nodes.size(); ++each) {
      const int n = static_cast<int>(each);
      const body_node& from = w_.node(n);
      if (!w_.is_needed(n) || from.kind == node_kind::constant || is_single(n)) continue;
      std::string value;
      if (from.kind == node_kind::load) {
        const int64_t own = array_width(n, width);
        std::string at = k == "0" ? "" : own == 1 ? k : fmt::format("k * {}", own);
        if (own > 1) at += at.empty() ? "l" : " + l";
        value = fmt::format("{}[{}]", array(n), at.empty() ? "0" : at);
      } else {
        value = w_.expression(n);
      }
      w_.define(n, value);
    }
    for (const auto& r : w_.body().results)
      w_.line(fmt::format("{}_q[{}] = {};", w_.target(index_of(r)), width > 1 ? "l" : "0", w_.spelled(r.node)));
    if (width > 1) w_.close();
    for (const auto& r : w_.body().results)
      write_vector_store(w_, r.target, width, w_.target(index_of(r)), offset(r.target, i, width),
                         w_.target(index_of(r)) + "_q");
  }

  int index_of(const body_result& r) const { return static_cast<int>(&r - w_.body().results.data()); }
  // The elements after the last whole vector of a one-dimensional domain.
  void write_tail() {
    const int64_t rest = elements_ - vectors_ * width_;
    if (rest == 0) return;
    w_.open(fmt::format("if (blockIdx.x == 0 && threadIdx.x < {})", rest));
    w_.line(fmt::format("const {} e = {} + (int)threadIdx.x;", index_, vectors_ * width_));
    write_loads("e", "0", 1);
    write_values("e", "0", 1);
    w_.close();
  }

  kernel_work work() {
    const auto& body = w_.body();
    const lane_place place = place_of_elements(body, width_);
    warp_access read, written;
    std::vector<int> nodes;
    bool straight = true;
    for (std::size_t each = 0; each < body.nodes.size(); ++each) {
      const int n = static_cast<int>(each);
      if (w_.is_needed(n)) nodes.push_back(n);
      if (!is_array(n)) continue;
      read += access_of_warp(operand_of(n), array_width(n, width_), place);
      straight = straight && is_linear(operand_of(n));
    }
    for (const auto& r : body.results) {
      written += access_of_warp(r.target, width_, place);
      straight = straight && is_linear(r.target);
    }
    const auto count = static_cast<double>(count_), width = static_cast<double>(width_);
    const double indices = straight ? 0 : k_index * static_cast<double>(body.domain.size());
    kernel_work out;
    out.loops.push_back({.reads = count * read.instructions,
                         .read_sectors = count * read.sectors,
                         .written_sectors = count * written.sectors,
                         .operations = count * (width * operations_of(body, nodes) + indices + read.instructions +
                                                written.instructions)});
    out.registers = k_registers + count * width * read.instructions;
    return out;
  }

  kernel_writer w_;
  std::string index_;
  int64_t elements_ = 1, threads_ = 0, width_ = 1, vectors_ = 0, count_ = 1;
};

}  // namespace

expected<emitted_kernel> emit_cuda_elements(const emit_request& request) {
  return cuda_elements_writer(request).write();
}

}  // namespace cudal1
