// Convolutions and pools. Operands whose strides suggest channels-last take other paths in ATen and are refused, except
// by the pools that pass the format on.
#include <algorithm>
#include <functional>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/operator_rules.hpp"

namespace cudal1::rules {

namespace {

// ATen sees one dimension as two.
tensor_type as_two_dimensions(tensor_type t) {
  t.strides.insert(t.strides.begin() + 2, saturating_multiply(t.shape[2], t.strides[2]));
  t.shape.insert(t.shape.begin() + 2, 1);
  return t;
}

expected<void> check_plain_layout(tensor_type t, std::string_view name) {
  if (t.dim() == 3) t = as_two_dimensions(std::move(t));
  if (suggested_format(t) == format::contiguous) return {};
  return not_covered("{} is {}: channels-last operands are outside our rules, make it contiguous first", name,
                     t.text());
}

expected<void> check_full_precision(const tensor_type& t, std::string_view name) {
  if (t.type == dtype::float32 || t.type == dtype::float64) return {};
  return not_covered("{} is {}, and our rules cover float32 and float64 here", name, t.text());
}

// What a convolution does along each of its dimensions.
struct geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool transposed = false;
};

expected<void> check_geometry(const geometry& g) {
  const auto each = [](const std::vector<int64_t>& values, int64_t least) {
    return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v >= least; });
  };
  if (!each(g.stride, 1)) return refuse("stride is {}, and should be positive", shape_text(g.stride));
  if (!each(g.dilation, 1)) return refuse("dilation is {}, and should be positive", shape_text(g.dilation));
  if (!each(g.padding, 0)) return refuse("padding is {}, and should not be negative", shape_text(g.padding));
  if (!each(g.output_padding, 0)) return refuse("output_padding should not be negative");
  if (g.groups < 1) return refuse("groups is {}, and should be positive", g.groups);
  for (std::size_t d = 0; d < g.output_padding.size(); ++d)
    if (g.output_padding[d] >= std::max(g.stride[d], g.dilation[d]))
      return refuse("output_padding {} should be smaller than stride {} or dilation {}", g.output_padding[d],
                    g.stride[d], g.dilation[d]);
  return {};
}

expected<int64_t> convolved_size(const geometry& g, std::size_t d, int64_t input, int64_t kernel) {
  const int64_t reach = saturating_multiply(g.dilation[d], kernel - 1);
  const int64_t size = g.transposed ? (input - 1) * g.stride[d] - 2 * g.padding[d] + reach + g.output_padding[d] + 1
                                    : (input + 2 * g.padding[d] - reach - 1) / g.stride[d] + 1;
  if (size < 1 || (!g.transposed && input + 2 * g.padding[d] < reach + 1))
    return refuse("the kernel of size {} does not fit dimension {}, which has size {}", kernel, d + 2, input);
  return size;
}

expected<void> check_bias(const tensor_type* bias, const tensor_type& input, int64_t channels) {
  if (!bias) return {};
  CUDAL1_CHECK(check_same_type(input, *bias, "input", "bias"));
  if (bias->shape == std::vector<int64_t>{channels}) return {};
  return refuse("bias is {}, and should have shape [{}]", bias->text(), channels);
}

outcome convolved(const arguments& a, const geometry& g) {
  const auto &input = a.tensor("input"), &weight = a.tensor("weight");
  const auto dimensions = static_cast<int64_t>(g.stride.size());
  CUDAL1_CHECK(check_full_precision(input, "input"));
  CUDAL1_CHECK(check_same_type(input, weight, "input", "weight"));
  CUDAL1_CHECK(check_rank(input, dimensions + 2, dimensions + 2, "input"));
  CUDAL1_CHECK(check_rank(weight, dimensions + 2, dimensions + 2, "weight"));
  CUDAL1_CHECK(check_geometry(g));
  CUDAL1_CHECK(check_plain_layout(input, "input"));
  CUDAL1_CHECK(check_plain_layout(weight, "weight"));
  const int64_t in = input.shape[1];
  const int64_t wanted_in = g.transposed ? weight.shape[0] : saturating_multiply(weight.shape[1], g.groups);
  const int64_t out = g.transposed ? saturating_multiply(weight.shape[1], g.groups) : weight.shape[0];
  if (in != wanted_in || in % g.groups != 0 || out % g.groups != 0)
    return refuse("input is {}: its {} channels do not fit weight, which is {}, in {} groups", input.text(), in,
                  weight.text(), g.groups);
  CUDAL1_CHECK(check_bias(a.optional_tensor("bias"), input, out));
  std::vector<int64_t> shape{input.shape[0], out};
  for (std::size_t d = 0; d < g.stride.size(); ++d) {
    CUDAL1_TRY(const int64_t size, convolved_size(g, d, input.shape[d + 2], weight.shape[d + 2]));
    shape.push_back(size);
  }
  return one(contiguous(input.type, std::move(shape)));
}

expected<geometry> read_geometry(const arguments& a, std::size_t n) {
  geometry g;
  CUDAL1_TRY(g.stride, a.per_dimension("stride", n));
  CUDAL1_TRY(g.dilation, a.per_dimension("dilation", n));
  g.groups = a.integer("groups");
  return g;
}

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
      return refuse("padding is {}, and should be at most half of the kernel's {}", w.padding[d], w.kernel[d]);
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

expected<tensor_type> pooled(const arguments& a, int64_t dimensions) {
  const auto& t = a.tensor("self");
  const auto n = static_cast<std::size_t>(dimensions);
  CUDAL1_CHECK(check_full_precision(t, "self"));
  CUDAL1_CHECK(check_rank(t, dimensions + 1, dimensions + 2, "self"));
  if (dimensions != 2) CUDAL1_CHECK(check_plain_layout(t, "self"));
  CUDAL1_TRY(const auto w, read_window(a, n));
  auto shape = t.shape;
  for (std::size_t d = 0; d < n; ++d) {
    auto& size = shape[shape.size() - n + d];
    CUDAL1_TRY(size, pooled_size(w, d, size, a.flag("ceil_mode")));
  }
  const auto how = dimensions == 2 ? suggested_format(t) : format::contiguous;
  return laid_out(t.type, std::move(shape), how);
}

}  // namespace

rule convolution(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto n = static_cast<std::size_t>(dimensions);
    CUDAL1_TRY(auto g, read_geometry(a, n));
    CUDAL1_TRY(g.padding, a.per_dimension("padding", n));
    return convolved(a, g);
  };
}

rule convolution_named_padding(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto n = static_cast<std::size_t>(dimensions);
    CUDAL1_TRY(auto g, read_geometry(a, n));
    const auto mode = a.text("padding");
    g.padding.assign(n, 0);
    if (mode == "valid") return convolved(a, g);
    if (mode != "same") return refuse("padding is \"{}\", and should be \"same\" or \"valid\"", mode);
    const auto& weight = a.tensor("weight");
    CUDAL1_CHECK(check_rank(weight, dimensions + 2, dimensions + 2, "weight"));
    for (std::size_t d = 0; d < n; ++d) {
      const int64_t reach = saturating_multiply(g.dilation[d], weight.shape[d + 2] - 1);
      if (g.stride[d] != 1) return refuse("padding \"same\" needs a stride of 1");
      if (reach % 2 != 0) return not_covered("padding \"same\" with an even kernel is outside our rules");
      g.padding[d] = reach / 2;
    }
    return convolved(a, g);
  };
}

rule convolution_transposed(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    const auto n = static_cast<std::size_t>(dimensions);
    CUDAL1_TRY(auto g, read_geometry(a, n));
    CUDAL1_TRY(g.padding, a.per_dimension("padding", n));
    CUDAL1_TRY(g.output_padding, a.per_dimension("output_padding", n));
    g.transposed = true;
    return convolved(a, g);
  };
}

rule convolution_general() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_rank(a.tensor("weight"), 3, 5, "weight"));
    const auto n = a.tensor("weight").shape.size() - 2;
    CUDAL1_TRY(auto g, read_geometry(a, n));
    CUDAL1_TRY(g.padding, a.per_dimension("padding", n));
    g.transposed = a.flag("transposed");
    if (g.transposed) {
      CUDAL1_TRY(g.output_padding, a.per_dimension("output_padding", n));
    }
    return convolved(a, g);
  };
}

rule average_pool(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    if (a.has("divisor_override") && a.optional_integer("divisor_override") == 0)
      return refuse("divisor_override should not be 0");
    CUDAL1_TRY(auto type, pooled(a, dimensions));
    const auto& shape = a.tensor("self").shape;
    CUDAL1_TRY(const auto kernel, a.per_dimension("kernel_size", static_cast<std::size_t>(dimensions)));
    if (dimensions == 3 && !std::equal(kernel.rbegin(), kernel.rend(), shape.rbegin(), std::less_equal<>()))
      return refuse("kernel_size {} is larger than self, which is {}", shape_text(kernel), a.tensor("self").text());
    return one(std::move(type));
  };
}

rule max_pool(int64_t dimensions, bool with_indices) {
  return [=](const arguments& a) -> outcome {
    CUDAL1_TRY(auto type, pooled(a, dimensions));
    if (!with_indices) return one(std::move(type));
    auto indices = type;
    indices.type = dtype::int64;
    return std::vector<operator_result>{{std::move(type), {}}, {std::move(indices), {}}};
  };
}

rule adaptive_average_pool(int64_t dimensions) {
  return [=](const arguments& a) -> outcome {
    auto t = a.tensor("self");
    const auto n = static_cast<std::size_t>(dimensions);
    CUDAL1_CHECK(check_full_precision(t, "self"));
    CUDAL1_CHECK(check_rank(t, dimensions + 1, dimensions + 2, "self"));
    if (dimensions == 3) CUDAL1_CHECK(check_plain_layout(t, "self"));
    CUDAL1_TRY(const auto sizes, a.per_dimension("output_size", n));
    const bool batch_of_lines = dimensions == 1 && t.dim() == 3;
    if (batch_of_lines) t = as_two_dimensions(std::move(t));
    auto shape = t.shape;
    for (std::size_t d = 0; d < n; ++d) {
      if (sizes[d] < 1) return refuse("output_size is {}, and should be positive", sizes[d]);
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

}  // namespace cudal1::rules
