// Convolutions. The result is channels-last where an operand suggests it, as cuDNN and oneDNN have it; ATen's other
// kernels may give another layout.
#include <algorithm>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace rules {

namespace {

// The parameters of a convolution, one for each spatial dimension. One more row of zeros follows the input where
// `more_padding` is 1: half of an odd number of them.
struct geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding, more_padding;
  int64_t groups = 1;
  bool transposed = false;
};

expected<void> check_geometry(const geometry& g) {
  const auto each = [](const std::vector<int64_t>& values, int64_t least) {
    return std::all_of(values.begin(), values.end(), [=](int64_t v) { return v >= least; });
  };
  if (!each(g.stride, 1)) return refuse("stride is {}, but should be positive", shape_text(g.stride));
  if (!each(g.dilation, 1)) return refuse("dilation is {}, but should be positive", shape_text(g.dilation));
  if (!each(g.padding, 0)) return refuse("padding is {}, but should not be negative", shape_text(g.padding));
  if (!each(g.output_padding, 0)) return refuse("output_padding should not be negative");
  if (g.groups < 1) return refuse("groups is {}, but should be positive", g.groups);
  for (std::size_t d = 0; d < g.output_padding.size(); ++d)
    if (g.output_padding[d] >= std::max(g.stride[d], g.dilation[d]))
      return refuse("output_padding {} should be smaller than stride {} or dilation {}", g.output_padding[d],
                    g.stride[d], g.dilation[d]);
  return {};
}

expected<int64_t> convolved_size(const geometry& g, std::size_t d, int64_t input, int64_t kernel) {
  const int64_t reach = saturating_multiply(g.dilation[d], kernel - 1);
  if (!g.more_padding.empty()) input += g.more_padding[d];
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
  return refuse("bias is {}, but should have shape [{}]", bias->text(), channels);
}

expected<tensor_type> convolved(const tensor_type& input, const tensor_type& weight, const tensor_type* bias,
                                const geometry& g) {
  const auto dimensions = static_cast<int64_t>(g.stride.size());
  CUDAL1_CHECK(check_kind(input, floats, "input"));
  CUDAL1_CHECK(check_same_type(input, weight, "input", "weight"));
  CUDAL1_CHECK(check_rank(input, dimensions + 2, dimensions + 2, "input"));
  CUDAL1_CHECK(check_rank(weight, dimensions + 2, dimensions + 2, "weight"));
  CUDAL1_CHECK(check_geometry(g));
  if (dimensions == 1) {
    CUDAL1_CHECK(check_channels_first(input, "input"));
    CUDAL1_CHECK(check_channels_first(weight, "weight"));
  }
  const int64_t in = input.shape[1];
  const int64_t wanted_in = g.transposed ? weight.shape[0] : saturating_multiply(weight.shape[1], g.groups);
  const int64_t out = g.transposed ? saturating_multiply(weight.shape[1], g.groups) : weight.shape[0];
  if (in != wanted_in || in % g.groups != 0 || out % g.groups != 0)
    return refuse("input is {}: its {} channels do not fit weight, which is {}, in {} groups", input.text(), in,
                  weight.text(), g.groups);
  CUDAL1_CHECK(check_bias(bias, input, out));
  std::vector<int64_t> shape{input.shape[0], out};
  for (std::size_t d = 0; d < g.stride.size(); ++d) {
    CUDAL1_TRY(const int64_t size, convolved_size(g, d, input.shape[d + 2], weight.shape[d + 2]));
    shape.push_back(size);
  }
  const bool last =
      suggested_format(input) == format::channels_last || suggested_format(weight) == format::channels_last;
  return laid_out(input.type, std::move(shape), last ? format::channels_last : format::contiguous);
}

outcome convolved(const arguments& a, const geometry& g) {
  auto input = a.tensor("input");
  const bool is_batch = input.shape.size() != g.stride.size() + 1;
  if (!is_batch) {  // ATen adds the dimension by unsqueeze(0)
    CUDAL1_CHECK(check_channels_first(input, "input"));
    input.strides.insert(input.strides.begin(), saturating_multiply(input.shape[0], input.strides[0]));
    input.shape.insert(input.shape.begin(), 1);
  }
  CUDAL1_TRY(auto result, convolved(input, a.tensor("weight"), a.optional_tensor("bias"), g));
  if (!is_batch) {
    result.shape.erase(result.shape.begin());
    result.strides.erase(result.strides.begin());
  }
  return one(std::move(result));
}

expected<geometry> read_geometry(const arguments& a, std::size_t n) {
  geometry g;
  CUDAL1_TRY(g.stride, a.per_dimension("stride", n));
  CUDAL1_TRY(g.dilation, a.per_dimension("dilation", n));
  g.groups = a.integer("groups");
  return g;
}

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
    g.more_padding.assign(n, 0);
    if (mode == "valid") return convolved(a, g);
    if (mode != "same") return refuse("padding is \"{}\", but should be \"same\" or \"valid\"", mode);
    const auto& weight = a.tensor("weight");
    CUDAL1_CHECK(check_rank(weight, dimensions + 2, dimensions + 2, "weight"));
    for (std::size_t d = 0; d < n; ++d) {
      const int64_t reach = saturating_multiply(g.dilation[d], weight.shape[d + 2] - 1);
      if (g.stride[d] != 1) return refuse("padding \"same\" needs a stride of 1");
      g.padding[d] = reach / 2;
      g.more_padding[d] = reach % 2;
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

// cuDNN's convolution with a bias, perhaps another operand `z`, and a ReLU, over two dimensions. A GPU's alone.
rule convolution_relu() {
  return [](const arguments& a) -> outcome {
    CUDAL1_TRY(auto g, read_geometry(a, 2));
    CUDAL1_TRY(g.padding, a.per_dimension("padding", 2));
    const auto& input = a.tensor("self");
    CUDAL1_TRY(auto result, convolved(input, a.tensor("weight"), a.optional_tensor("bias"), g));
    if (a.has("z")) {
      const auto& z = a.tensor("z");
      CUDAL1_CHECK(check_same_type(input, z, "self", "z"));
      if (z.shape != result.shape)
        return refuse("z is {}, but should have shape {}", z.text(), shape_text(result.shape));
    }
    return one(std::move(result));
  };
}

expected<void> check_operands(const std::vector<tensor_type>& operands, const tensor_type& input,
                              const tensor_type& result) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto name = fmt::format("operands[{}]", i);
    CUDAL1_CHECK(check_same_type(input, operands[i], "input", name));
    if (operands[i].shape != std::vector<int64_t>{result.shape[1]} && operands[i].shape != result.shape)
      return refuse("{} is {}, but should have shape [{}] or {}", name, operands[i].text(), result.shape[1],
                    shape_text(result.shape));
  }
  return {};
}

// A convolution over two or three dimensions and what a chain of functions makes of its elements, by one of cuDNN's
// engines. An operator of ours (sandbox/interpreter/own_operators.cpp).
rule convolution_graph() {
  return [](const arguments& a) -> outcome {
    constexpr int64_t most_engines = 64;
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_rank(a.tensor("weight"), 4, 5, "weight"));
    const auto n = a.tensor("weight").shape.size() - 2;
    for (const char* name : {"stride", "padding", "dilation", "output_padding"})
      if (a.integers(name).size() != n) return refuse("{} should have {} numbers", name, n);
    CUDAL1_TRY(auto g, read_geometry(a, n));
    g.padding = a.integers("padding");
    g.transposed = a.flag("transposed");
    if (g.transposed) g.output_padding = a.integers("output_padding");
    if (!g.transposed && a.integers("output_padding") != std::vector<int64_t>(n))
      return refuse("output_padding should be 0 where the convolution is not transposed");
    CUDAL1_TRY(auto result, convolved(input, a.tensor("weight"), nullptr, g));
    const auto operands = a.tensors("operands");
    CUDAL1_CHECK(check_operands(operands, input, result));
    if (const auto chain = read_chain(a.text("graph"), operands.size()); !chain.problem.empty())
      return refuse("graph: {}", chain.problem);
    if (a.integer("engine") < 0 || a.integer("engine") >= most_engines)
      return refuse("engine is {}, but should lie in 0 to {}", a.integer("engine"), most_engines - 1);
    return one(std::move(result));
  };
}

}  // namespace

}  // namespace rules

namespace {

using namespace work_parts;

// Counts each pair of an input element and a kernel tap inside the input, for each pair of channels of one group.
double convolution_flops(const operator_call& call, const tensor_type& result) {
  const auto* input = convolved_operand(call);
  const auto* weight = tensor_of(call, "weight");
  if (input == nullptr || weight == nullptr || weight->dim() < 3) return 0;
  const auto spatial = weight->shape.size() - 2;
  const bool batched = input->shape.size() == spatial + 2;
  // The weight is (out, in / groups, ...), or (in, out / groups, ...) where transposed: with the batch, all pairs.
  auto flops = 2.0 * static_cast<double>(weight->shape[0]) * static_cast<double>(weight->shape[1]);
  if (batched) flops *= static_cast<double>(input->shape[0]);
  for (const auto& w : windows_of(call, result))
    flops *= static_cast<double>(w.pairs());
  return flops;
}

}  // namespace

std::vector<operator_record> convolution_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::convolution, {
      {"aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor", convolution(1), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .flops = convolution_flops}},
      {"aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor", convolution(2), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .flops = convolution_flops}},
      {"aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor", convolution(3), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .flops = convolution_flops}},
      {"aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor", convolution_named_padding(1), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .flops = convolution_flops}},
      {"aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor", convolution_named_padding(2), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .flops = convolution_flops}},
      {"aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor", convolution_named_padding(3), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .flops = convolution_flops}},
      {"aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor", convolution_transposed(1), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .transposed = true, .flops = convolution_flops}},
      {"aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor", convolution_transposed(2), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .transposed = true, .flops = convolution_flops}},
      {"aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor", convolution_transposed(3), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .transposed = true, .flops = convolution_flops}},
      {"aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor", convolution_general(), {.changes = products, .needs_relayout = true, .product = {"input", "weight"}, .flops = convolution_flops}},
      {"aten::cudnn_convolution_relu(Tensor self, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups) -> Tensor", convolution_relu(), {.needs_relayout = true, .product = {"self", "weight"}, .flops = convolution_flops}},
      {"aten::cudnn_convolution_add_relu(Tensor self, Tensor weight, Tensor z, Scalar? alpha, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups) -> Tensor", convolution_relu(), {.needs_relayout = true, .product = {"self", "weight"}, .flops = convolution_flops}},
      {convolution_graph_schema, convolution_graph(), {.needs_relayout = true, .compiles_at_first = true, .product = {"input", "weight"}, .flops = convolution_flops}},
  });
  // clang-format on
}

}  // namespace cudal1
