#include "policy/codegen/pool_operators.hpp"

#include <algorithm>
#include <utility>

#include "policy/codegen/operator_values.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// Larger windows are better shared by several threads; one thread computes a window here.
constexpr int64_t k_largest_window = 512;
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

expected<row_domain> windows_of(const graph& g, const graph_step& s) {
  const tensor_type& type = g.type_of(g.resolve(*tensor_argument_name(s, "self")));
  const tensor_type& result = s.result_types[0];
  if (computed_in(type.type) != dtype::float32)
    return fail(errc::unsupported, "{} of {} stays a library call", s.op(), name_of(type.type));
  const auto dimensions = static_cast<std::size_t>(s.record().traits.pooled_dimensions);
  row_domain out;
  out.shape = result.shape;
  out.pooled = type.shape;
  int64_t elements = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    window_walk w;
    w.kernel = along(s, "kernel_size", i, 1);
    w.stride = along(s, "stride", i, w.kernel);
    w.padding = along(s, "padding", i, 0);
    w.dilation = along(s, "dilation", i, 1);
    w.size = type.shape[type.shape.size() - dimensions + i];
    elements *= w.kernel;
    out.reduced.push_back(std::ssize(out.shape));
    out.shape.push_back(w.kernel);
    out.windows.push_back(w);
  }
  if (elements > k_largest_window)
    return fail(errc::unsupported, "{} of windows of {} elements stays a library call", s.op(), elements);
  return out;
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

expected<void> build_pool(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(check_only_first_is_read(b, s, "indices"));
  CUDAL1_TRY(const int x, b.pooled_operand(s, "self"));
  double windows_of_element = 1;
  for (const auto& w : b.domain().windows)
    windows_of_element *= static_cast<double>(w.kernel) / static_cast<double>(w.stride);
  if (windows_of_element > 1 && windows_of_element * b.node(x).cost > k_most_recomputed)
    return fail(errc::unsupported, "what {} pools would be computed again in each of the windows that overlap", s.op());
  if (!s.record().traits.sums) return b.bind(s, 0, b.reduce(reduction_kind::max, x));
  return b.bind(s, 0, averaged(b, s, b.reduce(reduction_kind::sum, x)));
}

}  // namespace

bool is_pool(const graph_step& s) {
  return s.record().traits.pooled_dimensions > 0;
}

const row_operator& pool_builder() {
  static const row_operator pool{operator_family::reduction, windows_of, build_pool};
  return pool;
}

}  // namespace cudal1
