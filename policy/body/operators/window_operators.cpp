#include "policy/body/operators/window_operators.hpp"

#include <algorithm>
#include <utility>

#include "policy/body/operator_values.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

// Larger windows are better shared by several threads; one thread computes a window here.
constexpr int64_t k_largest_window = 512;
// A thread reads the weights of each element again: 7 x 7 take 1.7 times as long as cuDNN's in float16.
constexpr int64_t k_largest_convolution = 32;
// Additions that may be spent for each element on computing it again in the windows that overlap there: about as long
// as writing it and reading it back takes.
constexpr double k_most_recomputed = 32;

// The step's operator with its arguments in the schema's order.
operator_call call_of(const graph_step& s) {
  operator_call out{find_operator(s.op()), {}};
  for (const auto& declared : out.op->schema.arguments) {
    const auto* const given = s.argument(declared.name);
    out.arguments.push_back(given != nullptr ? *given : argument_value());
  }
  return out;
}

// The windows of at most so many elements over the last dimensions of the argument `slid`.
expected<row_domain> windows_over(const graph& g, const graph_step& s, const char* slid, int64_t most_elements) {
  const tensor_type& type = g.type_of(g.resolve(*tensor_argument_name(s, slid)));
  if (computed_in(type.type) != dtype::float32)
    return fail(errc::unsupported, "{} of {} stays a library call", s.op(), name_of(type.type));
  row_domain out;
  out.shape = s.result_types[0].shape;
  out.slid = type.shape;
  out.windows = windows_of(s);
  int64_t elements = 1;
  for (const auto& w : out.windows)
    elements *= w.kernel;
  if (elements == 1 && std::ranges::any_of(out.windows, [](const auto& w) { return w.padding > 0; }))
    return fail(errc::unsupported, "{} of windows of one element, some of them in the padding, stays a library call",
                s.op());
  if (elements > most_elements)
    return fail(errc::unsupported, "{} of windows of {} elements stays a library call", s.op(), elements);
  return out;
}

// How many elements the windows along a dimension have that count: the least and the most.
std::pair<int64_t, int64_t> sizes_of_windows(const work_parts::window& w, bool counts_padding) {
  std::pair<int64_t, int64_t> out{w.kernel, 0};
  for (int64_t i = 0; i < w.positions; ++i) {
    const int64_t from = i * w.stride - w.padding, to = std::min(from + w.kernel, w.size + w.padding);
    const int64_t size = counts_padding ? to - from : std::min(to, w.size) - std::max<int64_t>(from, 0);
    out = {std::min(out.first, size), std::max(out.second, size)};
  }
  return out;
}

// Divides as ATen does: by the given number, or by the window's elements within the tensor, or also by those in its
// padding; what reaches beyond the padding, with ceil_mode, never counts.
int averaged(body_builder& b, const graph_step& s, int sum) {
  if (const auto divisor = integer_argument(s, "divisor_override"))
    return divided(b, sum, static_cast<double>(*divisor));
  const bool counts_padding = boolean_argument(s, "count_include_pad").value_or(true);
  double size = 1;
  for (const auto& w : b.rows().windows) {
    const auto [least, most] = sizes_of_windows(w, counts_padding);
    if (least != most) return b.pointwise("$0 / $1", {sum, b.window_size(counts_padding)}, dtype::float32, 8);
    size *= static_cast<double>(least);
  }
  return divided(b, sum, size);
}

// An element of a window, computed from what is in memory.
expected<int> element_of_window(body_builder& b, const graph_step& s, const char* slid) {
  CUDAL1_TRY(const int x, b.slid_operand(s, slid));
  double windows_of_element = 1;
  for (const auto& w : b.rows().windows)
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

// How a convolution takes its input's channels: each alone for a channel of the result, or several for several.
enum class channels_taken { other, alone, together };

bool is_transposed(const graph_step& s) {
  return s.record().traits.transposed || boolean_argument(s, "transposed").value_or(false);
}

channels_taken channels_of(const graph_step& s) {
  const bool convolves = s.op() == "aten::conv1d" || s.op() == "aten::conv2d" || s.op() == "aten::conv3d" ||
                         s.op() == "aten::conv_transpose1d" || s.op() == "aten::conv_transpose2d.input" ||
                         s.op() == "aten::conv_transpose3d.input" || s.op() == "aten::convolution";
  const auto* const weight = convolves ? std::get_if<tensor_argument>(s.argument("weight")) : nullptr;
  const auto* const input = convolves ? std::get_if<tensor_argument>(s.argument("input")) : nullptr;
  if (weight == nullptr || input == nullptr) return channels_taken::other;
  const auto &sizes = weight->type.shape, &slid = input->type.shape;
  if (slid.size() != sizes.size()) return channels_taken::other;  // no batch
  if (is_transposed(s))
    return sizes[1] == s.result_types[0].shape[1] ? channels_taken::together : channels_taken::other;
  if (sizes[1] == 1 && sizes[0] == slid[1]) return channels_taken::alone;
  return channels_taken::together;
}

expected<void> build_convolution(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, element_of_window(b, s, "input"));
  const std::string weight = b.program().resolve(*tensor_argument_name(s, "weight"));
  const tensor_type& type = b.program().type_of(weight);
  CUDAL1_TRY(const int w,
             b.window_weights(weight, {0, type.strides[0]}, {type.strides.begin() + 2, type.strides.end()}));
  int sum = b.reduce(reduction_kind::sum, b.pointwise("$0 * $1", {x, w}));
  if (const auto bias = tensor_argument_name(s, "bias")) {
    const std::string& value = b.program().resolve(*bias);
    CUDAL1_TRY(const int added, b.window_weights(value, {0, b.program().type_of(value).strides[0]}));
    sum = b.pointwise("$0 + $1", {sum, added});
  }
  return b.bind(s, 0, sum);
}

expected<void> build_sum_of_channels(body_builder& b, const graph_step& s) {
  const graph& g = b.program();
  CUDAL1_TRY(const row_domain windows, windows_over(g, s, "input", k_largest_window));
  const tensor_type& result = s.result_types[0];
  if (result.shape != b.shape())
    return fail(errc::unsupported, "{} has another shape than the rest of the kernel", result.text());
  CUDAL1_TRY(const place where, b.place_of(result));
  CUDAL1_TRY(int sum, b.convolution({g.resolve(*tensor_argument_name(s, "input")),
                                     g.resolve(*tensor_argument_name(s, "weight")), windows.windows, is_transposed(s)},
                                    where));
  if (const auto bias = tensor_argument_name(s, "bias")) {
    const std::string& value = g.resolve(*bias);
    if (b.is_computed(value)) return fail(errc::unsupported, "the bias {} is not in memory", value);
    const int added = b.strided_load(value, {0, g.type_of(value).strides[0]});
    sum = b.pointwise("$0 + $1", {sum, added});
  }
  return b.bind(s, 0, sum);
}

}  // namespace

std::vector<work_parts::window> windows_of(const graph_step& s) {
  return work_parts::windows_of(call_of(s), s.result_types[0]);
}

const row_operator* find_window_operator(const graph_step& s) {
  static const row_operator pool{
      operator_family::reduction,
      [](const graph& g, const graph_step& p) { return windows_over(g, p, "self", k_largest_window); }, build_pool};
  static const row_operator convolution{
      operator_family::reduction,
      [](const graph& g, const graph_step& c) { return windows_over(g, c, "input", k_largest_convolution); },
      build_convolution};
  if (s.use->record == nullptr) return nullptr;  // an internal operator
  if (s.record().traits.pooled_dimensions > 0) return &pool;
  return channels_of(s) == channels_taken::alone ? &convolution : nullptr;
}

bool adds_up_channels(const graph_step& s) {
  return !s.is_replaced() && channels_of(s) == channels_taken::together;
}

const operator_builder& convolution_builder() {
  static const operator_builder builder = build_sum_of_channels;
  return builder;
}

}  // namespace cudal1
