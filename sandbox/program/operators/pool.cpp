// Pooling: windows over the last dimensions.
#include <algorithm>
#include <functional>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

struct window {
  std::vector<int64_t> kernel, stride, padding, dilation;
};

expected<window> read_window(const arguments& a, std::size_t n) {
  window w;
  CUDAL1_TRY(w.kernel, a.per_dimension("kernel_size", n));
  w.stride = w.kernel;
  if (!a.integers("stride").empty()) {
    CUDAL1_TRY(w.stride, a.per_dimension("stride", n));
  }
  CUDAL1_TRY(w.padding, a.per_dimension("padding", n));
  w.dilation.assign(n, 1);
  if (a.has("dilation")) {
    CUDAL1_TRY(w.dilation, a.per_dimension("dilation", n));
  }
  for (std::size_t d = 0; d < n; ++d) {
    if (w.kernel[d] < 1 || w.stride[d] < 1 || w.dilation[d] < 1)
      return refuse("kernel_size, stride and dilation should be positive");
    if (w.padding[d] < 0 || w.padding[d] > w.kernel[d] / 2)
      return refuse("padding is {}, but should be at most half of the kernel's {}", w.padding[d], w.kernel[d]);
  }
  return w;
}

// ATen's pooling_output_shape: with ceil_mode the last window must still start inside the input or its left padding.
expected<int64_t> pooled_size(const window& w, std::size_t d, int64_t input, bool ceil) {
  const int64_t reach = saturating_multiply(w.dilation[d], w.kernel[d] - 1);
  const int64_t room = input + 2 * w.padding[d] - reach - 1;
  if (room < 0) return refuse("the kernel of size {} does not fit a dimension of size {}", w.kernel[d], input);
  int64_t size = (room + (ceil ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
  if (ceil && (size - 1) * w.stride[d] >= input + w.padding[d]) --size;
  return size;
}

// The result's layout: `suggested` is that which the operand suggests; without it an operand that suggests
// channels-last is refused.
enum class pooled_layout { contiguous, suggested };

expected<tensor_type> pooled(const arguments& a, int64_t dimensions, pooled_layout layout) {
  const auto& t = a.tensor("self");
  const auto n = static_cast<std::size_t>(dimensions);
  CUDAL1_CHECK(check_kind(t, floats, "self"));
  CUDAL1_CHECK(check_rank(t, dimensions + 1, dimensions + 2, "self"));
  if (layout == pooled_layout::contiguous) CUDAL1_CHECK(check_channels_first(t, "self"));
  CUDAL1_TRY(const auto w, read_window(a, n));
  auto shape = t.shape;
  for (std::size_t d = 0; d < n; ++d) {
    auto& size = shape[shape.size() - n + d];
    CUDAL1_TRY(size, pooled_size(w, d, size, a.flag("ceil_mode")));
  }
  const auto how = layout == pooled_layout::suggested ? suggested_format(t) : format::contiguous;
  return laid_out(t.type, std::move(shape), how);
}

rule average_pool(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    if (a.has("divisor_override") && a.optional_integer("divisor_override") == 0)
      return refuse("divisor_override should not be 0");
    CUDAL1_TRY(auto type,
               pooled(a, dimensions, dimensions == 2 ? pooled_layout::suggested : pooled_layout::contiguous));
    const auto& shape = a.tensor("self").shape;
    CUDAL1_TRY(const auto kernel, a.per_dimension("kernel_size", static_cast<std::size_t>(dimensions)));
    if (dimensions == 3 && !std::equal(kernel.rbegin(), kernel.rend(), shape.rbegin(), std::less_equal<>()))
      return refuse("kernel_size {} is larger than self, which is {}", shape_text(kernel), a.tensor("self").text());
    return one(std::move(type));
  };
}

rule max_pool(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto layout = dimensions > 1 ? pooled_layout::suggested : pooled_layout::contiguous;
    CUDAL1_TRY(auto type, pooled(a, dimensions, layout));
    return one(std::move(type));
  };
}

rule max_pool_with_indices(int64_t dimensions) {
  return [values = max_pool(dimensions)](const arguments& a) -> outcome {
    CUDAL1_TRY(auto results, values(a));
    auto indices = results.front();
    indices.type.type = dtype::int64;
    results.push_back(std::move(indices));
    return results;
  };
}

rule adaptive_average_pool(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    auto t = a.tensor("self");
    const auto n = static_cast<std::size_t>(dimensions);
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    CUDAL1_CHECK(check_rank(t, dimensions + 1, dimensions + 2, "self"));
    if (dimensions == 3) CUDAL1_CHECK(check_channels_first(t, "self"));
    CUDAL1_TRY(const auto sizes, a.per_dimension("output_size", n));
    const bool batch_of_lines = dimensions == 1 && t.dim() == 3;
    if (batch_of_lines) t = as_two_dimensions(std::move(t));
    auto shape = t.shape;
    for (std::size_t d = 0; d < n; ++d) {
      if (sizes[d] < 1) return refuse("output_size is {}, but should be positive", sizes[d]);
      shape[shape.size() - n + d] = sizes[d];
    }
    auto result = laid_out(t.type, std::move(shape), suggested_format(t));
    if (batch_of_lines) {
      result.shape.erase(result.shape.begin() + 2);
      result.strides.erase(result.strides.begin() + 2);
    }
    return one(std::move(result));
  };
}

rule adaptive_max_pool(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_image(t, dimensions + 1, dimensions + 2, "self"));
    CUDAL1_TRY(const auto sizes, a.per_dimension("output_size", static_cast<std::size_t>(dimensions)));
    CUDAL1_TRY(auto values, with_spatial_sizes(t, sizes, "output_size"));
    values.push_back({contiguous(dtype::int64, values.front().type.shape), {}});
    return values;
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> pool_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pool, {
      {"aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor", average_pool(1), {.changes = {effect::mixed_linear}, .sums = true, .pooled_dimensions = 1}},
      {"aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", average_pool(2), {.changes = {effect::mixed_linear}, .sums = true, .pooled_dimensions = 2}},
      {"aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", average_pool(3), {.changes = {effect::mixed_linear}, .sums = true, .pooled_dimensions = 3}},
      {"aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor", max_pool(1), {.changes = {effect::chosen}, .selects = true, .pooled_dimensions = 1}},
      {"aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor", max_pool(2), {.changes = {effect::chosen}, .selects = true, .pooled_dimensions = 2}},
      {"aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor", max_pool(3), {.changes = {effect::chosen}, .selects = true, .needs_relayout = true, .pooled_dimensions = 3}},
      {"aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)", max_pool_with_indices(1), {.changes = {effect::chosen}, .pooled_dimensions = 1}},
      {"aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", max_pool_with_indices(2), {.changes = {effect::chosen}, .pooled_dimensions = 2}},
      {"aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", max_pool_with_indices(3), {.changes = {effect::chosen}, .needs_relayout = true, .pooled_dimensions = 3}},
      {"aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", adaptive_average_pool(1), {.sums = true, .rows = row_kernel{row_form::mean, row_extent::last_dims, 1}}},
      {"aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_average_pool(2), {.sums = true, .rows = row_kernel{row_form::mean, row_extent::last_dims, 2}}},
      {"aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", adaptive_average_pool(3), {.sums = true, .rows = row_kernel{row_form::mean, row_extent::last_dims, 3}}},
      {"aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_average_pool(2), {.sums = true, .rows = row_kernel{row_form::mean, row_extent::last_dims, 2}}},
      {"aten::_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", adaptive_average_pool(3), {.sums = true, .rows = row_kernel{row_form::mean, row_extent::last_dims, 3}}},
      {"aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)", adaptive_max_pool(1)},
      {"aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)", adaptive_max_pool(2)},
      {"aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)", adaptive_max_pool(3)},
  });
  // clang-format on
}

}  // namespace cudal1
