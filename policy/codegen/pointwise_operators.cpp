// The table of operators of one value an element, each as the C expression that is its definition. NaN passes through
// comparisons the way the operator says: `$0 < 0 ? 0 : $0` keeps it, as relu does.
#include <cmath>

#include "policy/codegen/body_builder.hpp"

namespace cudal1 {

namespace {

// A line of the table. `arguments` name tensors or numbers of the schema; a number becomes a literal.
struct expression_line {
  const char* op;
  std::vector<const char*> arguments;
  const char* expression;
  int cost = 1;
  bool floating = true;  // needs float operands; else integers are right too
};

constexpr int k_transcendental = 12;

const std::vector<expression_line>& expression_table() {
  static const std::vector<expression_line> table = {
      {"aten::abs", {"self"}, "fabsf($0)"},
      {"aten::neg", {"self"}, "-$0", 1, false},
      {"aten::exp", {"self"}, "expf($0)", k_transcendental},
      {"aten::expm1", {"self"}, "expm1f($0)", k_transcendental},
      {"aten::log", {"self"}, "logf($0)", k_transcendental},
      {"aten::log1p", {"self"}, "log1pf($0)", k_transcendental},
      {"aten::sin", {"self"}, "sinf($0)", k_transcendental},
      {"aten::cos", {"self"}, "cosf($0)", k_transcendental},
      {"aten::tanh", {"self"}, "tanhf($0)", k_transcendental},
      {"aten::erf", {"self"}, "erff($0)", k_transcendental},
      {"aten::sqrt", {"self"}, "sqrtf($0)", 4},
      {"aten::rsqrt", {"self"}, "1.0f / sqrtf($0)", 8},
      {"aten::reciprocal", {"self"}, "1.0f / $0", 4},
      {"aten::square", {"self"}, "$0 * $0"},
      {"aten::relu", {"self"}, "$0 < 0.0f ? 0.0f : $0"},
      {"aten::relu6", {"self"}, "$0 < 0.0f ? 0.0f : ($0 > 6.0f ? 6.0f : $0)", 2},
      {"aten::sigmoid", {"self"}, "1.0f / (1.0f + __expf(-$0))", k_transcendental + 5},
      {"aten::silu", {"self"}, "$0 / (1.0f + __expf(-$0))", k_transcendental + 5},
      {"aten::hardsigmoid", {"self"}, "($0 + 3.0f < 0.0f ? 0.0f : ($0 + 3.0f > 6.0f ? 6.0f : $0 + 3.0f)) / 6.0f", 6},
      {"aten::hardswish", {"self"}, "$0 * ($0 + 3.0f < 0.0f ? 0.0f : ($0 + 3.0f > 6.0f ? 6.0f : $0 + 3.0f)) / 6.0f", 7},
      {"aten::leaky_relu", {"self", "negative_slope"}, "$0 > 0.0f ? $0 : $0 * $1", 2},
      {"aten::hardtanh", {"self", "min_val", "max_val"}, "$0 < $1 ? $1 : ($0 > $2 ? $2 : $0)", 2},
      {"aten::clamp_min", {"self", "min"}, "$0 < $1 ? $1 : $0"},
      {"aten::clamp_max", {"self", "max"}, "$0 > $1 ? $1 : $0"},
      {"aten::threshold", {"self", "threshold", "value"}, "$0 <= $1 ? $2 : $0"},
      {"aten::elu",
       {"self", "alpha", "scale", "input_scale"},
       "$0 > 0.0f ? $0 * $2 : $1 * $2 * expm1f($0 * $3)",
       k_transcendental},
      {"aten::selu",
       {"self"},
       "1.0507009873554804934193349852946f * ($0 > 0.0f ? $0 : 1.6732632423543772848170429916717f * expm1f($0))",
       k_transcendental},
      {"aten::mul.Tensor", {"self", "other"}, "$0 * $1", 1, false},
      {"aten::mul.Scalar", {"self", "other"}, "$0 * $1", 1, false},
      {"aten::div.Tensor", {"self", "other"}, "$0 / $1", 4},
      {"aten::div.Scalar", {"self", "other"}, "$0 / $1", 4},
      {"aten::maximum", {"self", "other"}, "$0 > $1 || $0 != $0 ? $0 : $1"},
      {"aten::max.other", {"self", "other"}, "$0 > $1 || $0 != $0 ? $0 : $1"},
      {"aten::minimum", {"self", "other"}, "$0 < $1 || $0 != $0 ? $0 : $1"},
      {"aten::min.other", {"self", "other"}, "$0 < $1 || $0 != $0 ? $0 : $1"},
      {"aten::addcmul", {"self", "value", "tensor1", "tensor2"}, "$0 + $1 * $2 * $3", 3},
      {"aten::addcdiv", {"self", "value", "tensor1", "tensor2"}, "$0 + $1 * $2 / $3", 6},
      {"aten::lerp.Scalar",
       {"self", "end", "weight"},
       "fabsf($2) < 0.5f ? $0 + $2 * ($1 - $0) : $1 - ($1 - $0) * (1.0f - $2)",
       4},
  };
  return table;
}

// Comparisons: in the operands' type, to bool.
const std::vector<expression_line>& comparison_table() {
  static const std::vector<expression_line> table = {
      {"aten::lt.Scalar", {"self", "other"}, "$0 < $1"},  {"aten::lt.Tensor", {"self", "other"}, "$0 < $1"},
      {"aten::le.Scalar", {"self", "other"}, "$0 <= $1"}, {"aten::le.Tensor", {"self", "other"}, "$0 <= $1"},
      {"aten::gt.Scalar", {"self", "other"}, "$0 > $1"},  {"aten::gt.Tensor", {"self", "other"}, "$0 > $1"},
      {"aten::ge.Scalar", {"self", "other"}, "$0 >= $1"}, {"aten::ge.Tensor", {"self", "other"}, "$0 >= $1"},
      {"aten::eq.Scalar", {"self", "other"}, "$0 == $1"}, {"aten::eq.Tensor", {"self", "other"}, "$0 == $1"},
      {"aten::ne.Scalar", {"self", "other"}, "$0 != $1"}, {"aten::ne.Tensor", {"self", "other"}, "$0 != $1"},
  };
  return table;
}

expected<int> operand_or_number(body_builder& b, const graph_step& s, const char* name, dtype type) {
  if (tensor_argument_name(s, name)) return b.operand(s, name, s.result_types[0], type);
  const auto number = number_argument(s, name);
  if (!number) return fail(errc::unsupported, "{} without a value for {}", s.op(), name);
  return b.constant(*number, type);
}

expected<void> build_expression(const expression_line& line, dtype compute, body_builder& b, const graph_step& s) {
  std::vector<int> operands;
  for (const char* name : line.arguments) {
    CUDAL1_TRY(const int n, operand_or_number(b, s, name, compute));
    operands.push_back(n);
  }
  return b.bind(s, 0, b.pointwise(line.expression, std::move(operands), compute, line.cost));
}

expected<void> require_float(const graph_step& s) {
  if (s.result_types[0].type != dtype::float32)
    return fail(errc::unsupported, "{} on {} stays a library call", s.op(), name_of(s.result_types[0].type));
  return {};
}

expected<void> build_arithmetic(const expression_line& line, body_builder& b, const graph_step& s) {
  const dtype type = s.result_types[0].type;
  if (type != dtype::float32 && (line.floating || !is_integral(type)))
    return fail(errc::unsupported, "{} on {} stays a library call", s.op(), name_of(type));
  return build_expression(line, type, b, s);
}

expected<void> build_comparison(const expression_line& line, body_builder& b, const graph_step& s) {
  const auto self = tensor_argument_name(s, "self");
  const dtype type = b.program().type_of(b.program().resolve(*self)).type;
  const auto other = tensor_argument_name(s, "other");
  const bool same = !other || b.program().type_of(b.program().resolve(*other)).type == type;
  const auto number = number_argument(s, "other");
  // An integer tensor against a fraction compares as floats; that stays with the library.
  const bool whole = !number || is_floating(type) || *number == std::floor(*number);
  if (!same || !whole || type == dtype::bool_)
    return fail(errc::unsupported, "{} of mixed types stays a library call", s.op());
  std::vector<int> operands;
  for (const char* name : line.arguments) {
    CUDAL1_TRY(const int n, operand_or_number(b, s, name, type));
    operands.push_back(n);
  }
  return b.bind(s, 0, b.pointwise(line.expression, std::move(operands), dtype::bool_, line.cost));
}

// self + alpha other, self - alpha other, other - alpha self.
expected<void> build_sum(body_builder& b, const graph_step& s, bool subtract, bool reversed) {
  const dtype type = s.result_types[0].type;
  if (type != dtype::float32 && !is_integral(type))
    return fail(errc::unsupported, "{} on {} stays a library call", s.op(), name_of(type));
  CUDAL1_TRY(int first, operand_or_number(b, s, "self", type));
  CUDAL1_TRY(int second, operand_or_number(b, s, "other", type));
  if (reversed) std::swap(first, second);
  const double alpha = number_argument(s, "alpha").value_or(1);
  const std::string sign = subtract ? "-" : "+";
  if (alpha == 1) return b.bind(s, 0, b.pointwise("$0 " + sign + " $1", {first, second}, type));
  return b.bind(s, 0, b.pointwise("$0 " + sign + " $1 * $2", {first, b.constant(alpha, type), second}, type, 2));
}

expected<void> build_clamp(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(int x, b.operand(s, "self", s.result_types[0], dtype::float32));
  // min first and max last: where min > max the result is max.
  for (const auto& [name, keeps] : {std::pair("min", "$0 < $1 ? $1 : $0"), std::pair("max", "$0 > $1 ? $1 : $0")}) {
    if (!tensor_argument_name(s, name) && !number_argument(s, name)) continue;
    CUDAL1_TRY(const int limit, operand_or_number(b, s, name, dtype::float32));
    x = b.pointwise(keeps, {x, limit});
  }
  return b.bind(s, 0, x);
}

expected<void> build_gelu(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], dtype::float32));
  if (string_argument(s, "approximate") == "tanh") {
    const int inner = b.pointwise("0.7978845608028654f * ($0 + 0.044715f * $0 * $0 * $0)", {x}, dtype::float32, 5);
    return b.bind(s, 0, b.pointwise("0.5f * $0 * (1.0f + tanhf($1))", {x, inner}, dtype::float32, k_transcendental));
  }
  return b.bind(
      s, 0,
      b.pointwise("0.5f * $0 * (1.0f + erff($0 * 0.70710678118654752f))", {x}, dtype::float32, k_transcendental + 4));
}

// x tanh(log(1 + e^x)), with tanh(log(1 + t)) = (t^2 + 2t) / (t^2 + 2t + 2): one exponential, and no cancellation.
// Above 20 the factor is 1 in float, and t^2 stays finite.
expected<void> build_mish(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], dtype::float32));
  const int t = b.pointwise("__expf($0 > 20.0f ? 20.0f : $0)", {x}, dtype::float32, k_transcendental);
  const int n = b.pointwise("$0 * ($0 + 2.0f)", {t}, dtype::float32, 2);
  return b.bind(s, 0, b.pointwise("$0 * ($1 / ($1 + 2.0f))", {x, n}, dtype::float32, 6));
}

expected<void> build_softplus(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], dtype::float32));
  CUDAL1_TRY(const int beta, operand_or_number(b, s, "beta", dtype::float32));
  CUDAL1_TRY(const int threshold, operand_or_number(b, s, "threshold", dtype::float32));
  return b.bind(s, 0,
                b.pointwise("$0 * $1 > $2 ? $0 : log1pf(expf($0 * $1)) / $1", {x, beta, threshold}, dtype::float32,
                            2 * k_transcendental));
}

expected<void> build_power(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], dtype::float32));
  const auto exponent = number_argument(s, "exponent");
  if (exponent == 2.0) return b.bind(s, 0, b.pointwise("$0 * $0", {x}));
  if (exponent == 3.0) return b.bind(s, 0, b.pointwise("$0 * $0 * $0", {x}, dtype::float32, 2));
  if (exponent == 1.0) return b.bind(s, 0, x);
  if (exponent == 0.5) return b.bind(s, 0, b.pointwise("sqrtf($0)", {x}, dtype::float32, 4));
  if (exponent == -0.5) return b.bind(s, 0, b.pointwise("1.0f / sqrtf($0)", {x}, dtype::float32, 8));
  if (exponent == -1.0) return b.bind(s, 0, b.pointwise("1.0f / $0", {x}, dtype::float32, 4));
  return fail(errc::unsupported, "this power stays a library call");
}

expected<void> build_where(body_builder& b, const graph_step& s) {
  const dtype type = s.result_types[0].type;
  CUDAL1_TRY(const int condition, b.operand(s, "condition", s.result_types[0], dtype::bool_));
  CUDAL1_TRY(const int yes, operand_or_number(b, s, "self", type));
  CUDAL1_TRY(const int no, operand_or_number(b, s, "other", type));
  return b.bind(s, 0, b.pointwise("$0 ? $1 : $2", {condition, yes, no}, type));
}

expected<void> build_masked_fill(body_builder& b, const graph_step& s) {
  const dtype type = s.result_types[0].type;
  CUDAL1_TRY(const int mask, b.operand(s, "mask", s.result_types[0], dtype::bool_));
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], type));
  CUDAL1_TRY(const int value, operand_or_number(b, s, "value", type));
  return b.bind(s, 0, b.pointwise("$0 ? $1 : $2", {mask, value, x}, type));
}

// Batch norm with given statistics: an affine map a channel.
expected<void> build_batch_norm(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  const tensor_type& result = s.result_types[0];
  CUDAL1_TRY(const int x, b.operand(s, "input", result, dtype::float32));
  if (b.domain().shape != result.shape) return fail(errc::unsupported, "batch norm over other rows than the kernel's");
  const auto channel = [&](const char* name) -> expected<std::optional<int>> {
    const auto value = tensor_argument_name(s, name);
    if (!value) return std::nullopt;
    const std::string& resolved = b.program().resolve(*value);
    if (b.program().producer(resolved) != nullptr)
      return fail(errc::unsupported, "batch norm with computed statistics stays a library call");
    std::vector<int64_t> strides(result.shape.size(), 0);
    strides[1] = b.program().type_of(resolved).strides[0];
    return b.strided_load(resolved, strides);
  };
  CUDAL1_TRY(const auto mean, channel("running_mean"));
  CUDAL1_TRY(const auto variance, channel("running_var"));
  CUDAL1_TRY(const auto weight, channel("weight"));
  CUDAL1_TRY(const auto bias, channel("bias"));
  if (!mean || !variance) return fail(errc::unsupported, "batch norm without statistics stays a library call");
  const int eps = b.constant(number_argument(s, "eps").value_or(1e-5));
  int scale = b.pointwise("1.0f / sqrtf($0 + $1)", {*variance, eps}, dtype::float32, 9);
  if (weight) scale = b.pointwise("$0 * $1", {scale, *weight});
  int y = b.pointwise("($0 - $1) * $2", {x, *mean, scale}, dtype::float32, 2);
  if (bias) y = b.pointwise("$0 + $1", {y, *bias});
  return b.bind(s, 0, y);
}

expected<void> build_identity(body_builder& b, const graph_step& s) {
  const char* name = s.argument("self") != nullptr ? "self" : "input";
  const auto value = tensor_argument_name(s, name);
  if (!value) return fail(errc::unsupported, "{} without a tensor", s.op());
  // Another shape of the same elements is the same element only where broadcasting aligns it so.
  const tensor_type& from = b.program().type_of(b.program().resolve(*value));
  if (from.numel() != s.result_types[0].numel() || from.shape.size() > s.result_types[0].shape.size())
    return fail(errc::unsupported, "{} moves elements", s.op());
  for (std::size_t i = 0; i < from.shape.size(); ++i) {
    if (from.shape[from.shape.size() - 1 - i] != s.result_types[0].shape[s.result_types[0].shape.size() - 1 - i])
      return fail(errc::unsupported, "{} moves elements", s.op());
  }
  CUDAL1_TRY(const int x, b.operand(s, name, s.result_types[0], s.result_types[0].type));
  return b.bind(s, 0, x);
}

std::map<std::string, operator_builder, std::less<>> make_table() {
  std::map<std::string, operator_builder, std::less<>> table;
  for (const auto& line : expression_table())
    table[line.op] = [&line](body_builder& b, const graph_step& s) { return build_arithmetic(line, b, s); };
  for (const auto& line : comparison_table())
    table[line.op] = [&line](body_builder& b, const graph_step& s) { return build_comparison(line, b, s); };
  const auto sum = [](bool subtract, bool reversed) {
    return [=](body_builder& b, const graph_step& s) { return build_sum(b, s, subtract, reversed); };
  };
  table["aten::add.Tensor"] = table["aten::add.Scalar"] = sum(false, false);
  table["aten::sub.Tensor"] = table["aten::sub.Scalar"] = sum(true, false);
  table["aten::rsub.Scalar"] = table["aten::rsub.Tensor"] = sum(true, true);
  table["aten::clamp"] = table["aten::clamp.Tensor"] = build_clamp;
  table["aten::gelu"] = build_gelu;
  table["aten::mish"] = build_mish;
  table["aten::softplus"] = build_softplus;
  table["aten::pow.Tensor_Scalar"] = build_power;
  table["aten::where.self"] = table["aten::where.ScalarOther"] = table["aten::where.ScalarSelf"] = build_where;
  table["aten::masked_fill.Scalar"] = build_masked_fill;
  table["aten::batch_norm"] = build_batch_norm;
  table["aten::contiguous"] = table["aten::clone"] = table["aten::unsqueeze"] = build_identity;
  return table;
}

}  // namespace

const operator_builder* find_pointwise(const graph_step& s) {
  static const auto table = make_table();
  const auto found = table.find(operator_key(s));
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace cudal1
