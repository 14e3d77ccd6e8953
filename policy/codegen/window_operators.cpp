#include "policy/codegen/window_operators.hpp"

#include <algorithm>
#include <utility>

#include "policy/codegen/internal_operators.hpp"
#include "policy/codegen/operator_values.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// Larger windows are better shared by several threads; one thread computes a window here.
constexpr int64_t k_largest_window = 512;
// A thread reads the weights of each element again: 7 x 7 take 1.7 times as long as cuDNN's in float16.
constexpr int64_t k_largest_convolution = 32;
// Additions that may be spent for each element on computing it again in the windows that overlap there: about as long
// as writing it and reading it back takes.
constexpr double k_most_recomputed = 32;

// The argument's number along a pooled dimension; one number is for all of them.
int64_t along(const graph_step& s, const char* name, std::size_t dimension, int64_t otherwise) {
  const auto list = integers_argument(s, name);
  if (!list) return integer_argument(s, name).value_or(otherwise);
  if (list->empty()) return otherwise;
  return list->size() == 1 ? list->front() : list->at(dimension);
}

// The windows over the last dimensions of the argument `slid`, of these sizes. Where no stride is given, windows are as
// far apart as they are long (pools), or as elements are.
expected<row_domain> windows_over(const graph& g, const graph_step& s, const char* slid,
                                  const std::vector<int64_t>& kernel, bool strides_are_sizes, int64_t most_elements) {
  const tensor_type& type = g.type_of(g.resolve(*tensor_argument_name(s, slid)));
  const tensor_type& result = s.result_types[0];
  if (computed_in(type.type) != dtype::float32)
    return fail(errc::unsupported, "{} of {} stays a library call", s.op(), name_of(type.type));
  const std::size_t dimensions = kernel.size();
  row_domain out;
  out.shape = result.shape;
  out.pooled = type.shape;
  int64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    window_walk w;
    w.kernel = kernel[i];
    w.stride = along(s, "stride", i, strides_are_sizes ? w.kernel : 1);
    w.padding = along(s, "padding", i, 0);
    w.dilation = along(s, "dilation", i, 1);
    w.size = type.shape[type.shape.size() - dimensions + i];
    elements *= w.kernel;
    out.reduced.push_back(std::ssize(out.shape));
    out.shape.push_back(w.kernel);
    out.windows.push_back(w);
  }
  if (elements > most_elements)
    return fail(errc::unsupported, "{} of windows of {} elements stays a library call", s.op(), elements);
  return out;
}

expected<row_domain> pooled_windows(const graph& g, const graph_step& s) {
  std::vector<int64_t> kernel;
  for (int64_t i = 0; i < s.record().traits.pooled_dimensions; ++i)
    kernel.push_back(along(s, "kernel_size", static_cast<std::size_t>(i), 1));
  return windows_over(g, s, "self", kernel, true, k_largest_window);
}

// How many elements the windows along a dimension have that count: the least and the most.
std::pair<int64_t, int64_t> sizes_of_windows(const window_walk& w, int64_t windows, bool counts_padding) {
  std::pair<int64_t, int64_t> out{w.kernel, 0};
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t from = i * w.stride - w.padding, to = std::min(from + w.kernel, w.size + w.padding);
    const int64_t size = counts_padding ? to - from : std::min(to, w.size) - std::max<int64_t>(from, 0);
    out = {std::min(out.first, size), std::max(out.second, size)};
  }
  return out;
}

// As ATen divides: by the given number, or by the window's elements within the tensor, or also by those in its padding;
// what reaches beyond the padding, with ceil_mode, never counts.
int averaged(body_builder& b, const graph_step& s, int sum) {
  if (const auto divisor = integer_argument(s, "divisor_override"))
    return divided(b, sum, static_cast<double>(*divisor));
  const bool counts_padding = boolean_argument(s, "count_include_pad").value_or(true);
  const row_domain& domain = b.domain();
  const std::size_t first = domain.pooled.size() - domain.windows.size();
  double size = 1;
  for (std::size_t i = 0; i < domain.windows.size(); ++i) {
    const auto [least, most] = sizes_of_windows(domain.windows[i], domain.shape[first + i], counts_padding);
    if (least != most) return b.pointwise("$0 / $1", {sum, b.window_size(counts_padding)}, dtype::float32, 8);
    size *= static_cast<double>(least);
  }
  return divided(b, sum, size);
}

// An element of a window, computed from what is in memory.
expected<int> element_of_window(body_builder& b, const graph_step& s, const char* slid) {
  CUDAL1_TRY(const int x, b.pooled_operand(s, slid));
  double windows_of_element = 1;
  for (const auto& w : b.domain().windows)
    windows_of_element *= static_cast<double>(w.kernel) / static_cast<double>(w.stride);
  if (windows_of_element > 1 && windows_of_element * b.node(x).cost > k_most_recomputed)
    return fail(errc::unsupported, "what {} reads would be computed again in each of the windows that overlap", s.op());
  return x;
}

expected<void> build_pool(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(check_only_first_is_read(b, s, "indices"));
  CUDAL1_TRY(const int x, element_of_window(b, s, "self"));
  if (!s.record().traits.sums) return b.bind(s, 0, b.reduce(reduction_kind::max, x));
  return b.bind(s, 0, averaged(b, s, b.reduce(reduction_kind::sum, x)));
}

// The weights of a convolution that takes each channel alone; null for other steps.
const tensor_type* weights_of_channels(const graph_step& s) {
  const bool convolves = s.op() == "aten::conv1d" || s.op() == "aten::conv2d" || s.op() == "aten::conv3d" ||
                         (s.op() == "aten::convolution" && !boolean_argument(s, "transposed").value_or(true));
  const auto* const weight = convolves ? std::get_if<tensor_argument>(s.argument("weight")) : nullptr;
  const auto* const input = convolves ? std::get_if<tensor_argument>(s.argument("input")) : nullptr;
  if (weight == nullptr || input == nullptr) return nullptr;
  const auto& sizes = weight->type.shape;
  const bool batched = input->type.shape.size() == sizes.size();
  return batched && sizes[1] == 1 && sizes[0] == input->type.shape[1] ? &weight->type : nullptr;
}

expected<row_domain> convolved_windows(const graph& g, const graph_step& s) {
  const auto& sizes = weights_of_channels(s)->shape;
  return windows_over(g, s, "input", {sizes.begin() + 2, sizes.end()}, false, k_largest_convolution);
}

expected<void> build_convolution(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, element_of_window(b, s, "input"));
  const std::string weight = b.program().resolve(*tensor_argument_name(s, "weight"));
  const tensor_type& type = b.program().type_of(weight);
  std::vector<int64_t> strides(b.domain().shape.size(), 0);
  strides[1] = type.strides[0];
  for (std::size_t i = 2; i < type.strides.size(); ++i)
    strides[b.domain().pooled.size() + i - 2] = type.strides[i];
  int sum = b.reduce(reduction_kind::sum, b.pointwise("$0 * $1", {x, b.window_weights(weight, strides)}));
  if (const auto bias = tensor_argument_name(s, "bias")) {
    const std::string& value = b.program().resolve(*bias);
    sum = b.pointwise("$0 + $1", {sum, b.window_weights(value, {0, b.program().type_of(value).strides[0]})});
  }
  return b.bind(s, 0, sum);
}

}  // namespace

const row_operator* find_window_operator(const graph_step& s) {
  static const row_operator pool{operator_family::reduction, pooled_windows, build_pool};
  static const row_operator convolution{operator_family::reduction, convolved_windows, build_convolution};
  if (find_internal_operator(s.op()) != nullptr) return nullptr;
  if (s.record().traits.pooled_dimensions > 0) return &pool;
  return weights_of_channels(s) != nullptr ? &convolution : nullptr;
}

}  // namespace cudal1
