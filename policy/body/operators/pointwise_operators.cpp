// Pointwise operators, as their records define them: mostly by a C expression.
#include <cmath>
#include <limits>

#include "policy/body/operator_values.hpp"
#include "policy/body/operators/bit_operators.hpp"
#include "policy/body/operators/loss_operators.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr int k_transcendental = 12;

expected<int> operand_or_number(body_builder& b, const graph_step& s, const char* name, dtype type) {
  return operand_or_number(b, s, name, s.result_types[0], type);
}

expected<int> expression_node(body_builder& b, const graph_step& s, dtype compute, dtype result) {
  return expression_node(b, s, s.result_types[0], compute, result);
}

// float32, or a half type, which kernels compute in float32.
expected<void> require_float(const graph_step& s) {
  if (computed_in(s.result_types[0].type) != dtype::float32)
    return fail(errc::unsupported, "{} on {} stays a library call", s.op(), name_of(s.result_types[0].type));
  return {};
}

// Sigmoids whose result is rounded to a half type need no exact division. (A divisor above 2^126 gives 0.)
void divide_fast(body_node& n) {
  if (n.expression == "1.0f / (1.0f + __expf(-$0))") n.expression = "__fdividef(1.0f, 1.0f + __expf(-$0))";
  if (n.expression == "$0 / (1.0f + __expf(-$0))") n.expression = "__fdividef($0, 1.0f + __expf(-$0))";
}

expected<void> build_expression(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  // A threshold is compared with elements, so it must be one of the type's numbers; other numbers keep float32.
  const bool compares = s.record().name() == "aten::threshold";
  const dtype type = compares ? s.result_types[0].type : dtype::float32;
  CUDAL1_TRY(const int node, expression_node(b, s, type, dtype::float32));
  if (is_half(s.result_types[0].type)) divide_fast(b.node(node));
  return b.bind(s, 0, node);
}

expected<void> require_float_or_integers(const graph_step& s) {
  return is_integral(s.result_types[0].type) ? expected<void>() : require_float(s);
}

expected<void> build_arithmetic(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float_or_integers(s));
  const dtype result = s.result_types[0].type, type = is_integral(result) ? result : computed_in(result);
  CUDAL1_TRY(const int node, expression_node(b, s, type, type));
  return b.bind(s, 0, b.wrapped_to(type, node));
}

expected<void> build_comparison(body_builder& b, const graph_step& s) {
  const auto self = tensor_argument_name(s, "self");
  const dtype type = b.program().type_of(b.program().resolve(*self)).type;
  const auto other = tensor_argument_name(s, "other");
  const bool same = !other || b.program().type_of(b.program().resolve(*other)).type == type;
  const auto number = number_argument(s, "other");
  // An integer tensor is compared with a fraction as floats; that stays a library call.
  const bool whole = !number || is_floating(type) || *number == std::floor(*number);
  if (!same || !whole || type == dtype::bool_)
    return fail(errc::unsupported, "{} of mixed types stays a library call", s.op());
  CUDAL1_TRY(const int node, expression_node(b, s, type, dtype::bool_));
  return b.bind(s, 0, node);
}

// self + alpha other, self - alpha other, other - alpha self.
expected<void> build_sum(body_builder& b, const graph_step& s, kernel_form form) {
  CUDAL1_CHECK(require_float_or_integers(s));
  const dtype result = s.result_types[0].type, type = is_integral(result) ? result : computed_in(result);
  CUDAL1_TRY(int first, operand_or_number(b, s, "self", type));
  CUDAL1_TRY(int second, operand_or_number(b, s, "other", type));
  if (form == kernel_form::reversed_difference) std::swap(first, second);
  const double alpha = number_argument(s, "alpha").value_or(1);
  const std::string sign = form == kernel_form::sum ? "+" : "-";
  const int node = alpha == 1
                       ? b.pointwise("$0 " + sign + " $1", {first, second}, type)
                       : b.pointwise("$0 " + sign + " $1 * $2", {first, b.constant(alpha, type), second}, type, 2);
  return b.bind(s, 0, b.wrapped_to(type, node));
}

expected<void> build_clamp(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(int x, b.operand(s, "self", s.result_types[0], dtype::float32));
  // min first and max last: where min > max the result is max. A limit that is NaN makes the result NaN.
  for (const auto& [name, is_outside] : {std::pair("min", "$0 < $1"), std::pair("max", "$0 > $1")}) {
    const auto number = number_argument(s, name);
    if (!tensor_argument_name(s, name) && !number) continue;
    CUDAL1_TRY(const int limit, operand_or_number(b, s, name, dtype::float32));
    const bool is_number = number && !std::isnan(*number);
    x = b.pointwise(fmt::format("{}{} ? $1 : $0", is_outside, is_number ? "" : " || $1 != $1"), {x, limit});
  }
  return b.bind(s, 0, x);
}

// x erfc(-x / sqrt(2)) / 2 in a third of erff's instructions, exact to 3e-7, by formula 7.1.26 of Abramowitz and
// Stegun, Handbook of Mathematical Functions: erfc(z) is a polynomial in 1 / (1 + 0.3275911 z) times e^(-z^2). It does
// not cancel where x is negative. From 16 on e^(-z^2) is 0.
int gelu_for_half(body_builder& b, int x) {
  const int a = b.pointwise("fminf(fabsf($0), 16.0f)", {x}, dtype::float32, 2);
  const int t = b.pointwise("__fdividef(1.0f, 1.0f + 0.23164189f * $0)", {a}, dtype::float32, 4);
  const int p = b.pointwise(
      "$0 * (0.127414796f + $0 * (-0.142248368f + $0 * (0.7107068705f + $0 * (-0.7265760135f + $0 * 0.5307027145f))))",
      {t}, dtype::float32, 6);
  const int tail = b.pointwise("$0 * __expf(-0.5f * $1 * $1)", {p, a}, dtype::float32, k_transcendental);
  return b.pointwise("$0 > 0.0f ? $0 - $1 * $2 : $0 * $2", {x, a, tail}, dtype::float32, 4);
}

expected<void> build_gelu(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], dtype::float32));
  // (1 + tanh(t)) / 2 = 1 / (1 + e^(-2t)), which does not cancel where t is negative, in half the instructions.
  if (string_argument(s, "approximate") == "tanh") {
    const int inner = b.pointwise("-1.5957691216057308f * ($0 + 0.044715f * $0 * $0 * $0)", {x}, dtype::float32, 5);
    return b.bind(s, 0, b.pointwise("__fdividef($0, 1.0f + __expf($1))", {x, inner}, dtype::float32, k_transcendental));
  }
  if (is_half(s.result_types[0].type)) return b.bind(s, 0, gelu_for_half(b, x));
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

// Batch norm with given statistics: one affine map per channel.
expected<void> build_batch_norm(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  const tensor_type& result = s.result_types[0];
  CUDAL1_TRY(const int x, b.operand(s, "input", result, dtype::float32));
  if (result.shape != b.shape()) return fail(errc::unsupported, "the batch norm's shape is not the kernel's");
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

// Another type. Floating numbers to integers stay a library call: what is out of range is undefined in C.
expected<void> build_conversion(body_builder& b, const graph_step& s) {
  const auto value = tensor_argument_name(s, "self");
  if (!value) return fail(errc::unsupported, "{} without a tensor", s.op());
  const dtype from = b.program().type_of(b.program().resolve(*value)).type, to = s.result_types[0].type;
  const bool is_defined = is_floating(to) || from == dtype::bool_ || (is_integral(from) && is_integral(to));
  if (from != to && !is_defined)
    return fail(errc::unsupported, "{} of {} to {} stays a library call", s.op(), name_of(from), name_of(to));
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], to));
  // The rounding stays where no memory has the type, either.
  const bool rounds = is_half(to) && from != to && (is_floating(from) || size_of(from) > 1);
  return b.bind(s, 0, rounds ? rounded_to(b, x, to) : x);
}

expected<void> build_identity(body_builder& b, const graph_step& s) {
  const char* name = s.argument("self") != nullptr ? "self" : "input";
  const auto value = tensor_argument_name(s, name);
  if (!value) return fail(errc::unsupported, "{} without a tensor", s.op());
  // A reshape is an identity only where broadcasting aligns both shapes. Else it may be a view of what lies in memory.
  const tensor_type& from = b.program().type_of(b.program().resolve(*value));
  const tensor_type& to = s.result_types[0];
  if (from.numel() != to.numel()) return fail(errc::unsupported, "{} changes the order of elements in memory", s.op());
  const bool is_aligned =
      from.shape.size() <= to.shape.size() && std::equal(from.shape.rbegin(), from.shape.rend(), to.shape.rbegin());
  const bool is_view = s.record().kind == operator_kind::view && !s.record().traits.moves_start_address;
  if (!is_aligned && !is_view) return fail(errc::unsupported, "{} changes the order of elements in memory", s.op());
  CUDAL1_TRY(const int x, is_aligned ? b.operand(s, name, to, to.type) : b.view_of_memory(*value, to));
  return b.bind(s, 0, x);
}

// A row of a table for each index. An index that names none gives NaN.
expected<void> build_lookup(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  const std::vector<int64_t>& shape = s.result_types[0].shape;
  if (!b.is_by_element(shape)) return fail(errc::unsupported, "the table's rows do not have the kernel's shape");
  body_builder::table from;
  from.value = b.program().resolve(*tensor_argument_name(s, "weight"));
  from.index = b.program().resolve(*tensor_argument_name(s, "indices"));
  const tensor_type &weight = b.program().type_of(from.value), &index = b.program().type_of(from.index);
  from.strides.assign(shape.size(), 0);
  from.strides.back() = weight.strides[1];
  from.index_strides = index.strides;
  from.row_stride = weight.strides[0];
  from.rows = weight.shape[0];
  CUDAL1_TRY(const int x, b.table_load(from, s.result_types[0]));
  const int number = b.node(x).operands[0];
  const std::string exists = fmt::format("$0 >= 0 && $0 < {}", from.rows);
  const int valid = b.pointwise(exists, {number}, dtype::bool_);
  const int nothing = b.constant(std::numeric_limits<double>::quiet_NaN());
  return b.bind(s, 0, b.pointwise("$0 ? $1 : $2", {valid, x, nothing}));
}

expected<void> build_join(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, b.joined_operand(s, "tensors", s.result_types[0].type));
  return b.bind(s, 0, x);
}

expected<void> build_divergence(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_float(s));
  CUDAL1_TRY(const int node, divergence(b, s, s.result_types[0]));
  return b.bind(s, 0, node);
}

operator_builder builder_of(kernel_form form) {
  switch (form) {
    case kernel_form::expression:
      return build_expression;
    case kernel_form::arithmetic:
      return build_arithmetic;
    case kernel_form::comparison:
      return build_comparison;
    case kernel_form::sum:
    case kernel_form::difference:
    case kernel_form::reversed_difference:
      return [form](body_builder& b, const graph_step& s) { return build_sum(b, s, form); };
    case kernel_form::bits:
      return build_bits;
    case kernel_form::complement:
      return build_complement;
    case kernel_form::left_shift:
    case kernel_form::right_shift:
      return [form](body_builder& b, const graph_step& s) { return build_shift(b, s, form); };
    case kernel_form::clamp:
      return build_clamp;
    case kernel_form::gelu:
      return build_gelu;
    case kernel_form::mish:
      return build_mish;
    case kernel_form::power:
      return build_power;
    case kernel_form::select:
      return build_where;
    case kernel_form::masked_fill:
      return build_masked_fill;
    case kernel_form::channel_affine:
      return build_batch_norm;
    case kernel_form::identity:
      return build_identity;
    case kernel_form::looked_up:
      return build_lookup;
    case kernel_form::joined:
      return build_join;
    case kernel_form::conversion:
      return build_conversion;
    case kernel_form::divergence:
      return build_divergence;
  }
  return {};
}

}  // namespace

const operator_builder* find_pointwise(const graph_step& s) {
  static const auto builders = [] {
    std::map<kernel_form, operator_builder> made;
    for (const auto& r : operator_records())
      if (r.traits.kernel) made.try_emplace(r.traits.kernel->form, builder_of(r.traits.kernel->form));
    return made;
  }();
  const auto& traits = s.record().traits;
  return traits.kernel && !is_by_row(s) ? &builders.at(traits.kernel->form) : nullptr;
}

}  // namespace cudal1
