// Pointwise operators of two tensors, or of a tensor and a number: broadcasting and type promotion.
#include <algorithm>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

// A tensor with a tensor or a scalar, with type promotion.
struct binary_options {
  unsigned accepted = any;  // of the common type
  bool to_float = false;
  std::optional<dtype> result = {};
  bool swapped = false;  // the second operand comes first in the iterator
  bool scaled = false;   // has alpha
  bool bools = true;     // an operand may be bool where the common type is not
  bool wraps = false;    // a whole number that the common type cannot hold is taken by its lowest bits
};

rule binary(binary_options options = {}) {
  return [=](const arguments& a) -> outcome {
    promotion types;
    for (const std::size_t i : {0, 1})
      a.is_tensor(i) ? types.add(a.tensor(i)) : types.add(a.scalar(i));
    if (!options.bools)
      for (const std::size_t i : {0, 1}) {
        const bool is_bool =
            a.is_tensor(i) ? a.tensor(i).type == dtype::bool_ : std::holds_alternative<bool>(a.scalar(i));
        if (is_bool) return refuse("operand {} is bool, but this operator takes integer and floating types only", i);
      }
    dtype common = types.result();
    if (options.to_float) common = float_of(common);
    CUDAL1_CHECK(check_kind(scalar_operand(common), options.accepted, "the common type of the operands"));
    std::vector<tensor_type> operands;
    for (const std::size_t i : {0, 1}) {
      const bool wraps =
          options.wraps && common != dtype::bool_ && !a.is_tensor(i) && std::holds_alternative<int64_t>(a.scalar(i));
      if (!a.is_tensor(i) && !wraps) CUDAL1_CHECK(check_scalar_fits(a.scalar(i), common, "the scalar"));
      operands.push_back(a.is_tensor(i) ? a.tensor(i) : scalar_operand(common));
    }
    if (options.scaled) {
      if (std::holds_alternative<bool>(a.scalar("alpha"))) return refuse("alpha should be a number");
      if (common == dtype::bool_ && a.scalar("alpha") != scalar_value(int64_t{1}))
        return refuse("alpha should be 1 for bool tensors");
      CUDAL1_CHECK(check_scalar_fits(a.scalar("alpha"), common, "alpha"));
    }
    if (options.swapped) std::swap(operands[0], operands[1]);
    return iterated(operands, common, options.result.value_or(common));
  };
}

rule divide_rounded() {
  return [](const arguments& a) -> outcome {
    const auto mode = a.text("rounding_mode");
    if (mode.empty()) return binary({.to_float = true})(a);
    if (mode != "floor" && mode != "trunc")
      return refuse("rounding_mode is \"{}\", but should be null, \"floor\" or \"trunc\"", mode);
    return binary({.accepted = numbers})(a);  // ATen checks integers for a divisor of zero
  };
}

rule power() {  // a scalar exponent is not an operand of the iterator
  return [](const arguments& a) -> outcome {
    if (a.is_tensor(1)) return binary({.accepted = numbers})(a);
    const auto& t = a.tensor(0);
    const dtype common = promotion().add(t).add(a.scalar(1)).result();
    const auto exponent = a.scalar(1);
    const auto* whole = std::get_if<int64_t>(&exponent);
    if (!is_floating(common) && (!whole || *whole < 0))
      return refuse("an integer tensor to the power {} is not an integer", whole ? *whole : 0);
    return iterated({converted(t, common)}, common, common);
  };
}

rule scalar_power() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("exponent");
    const dtype common = promotion().add(t).add(a.scalar("self")).result();
    if (!is_floating(common))
      return not_covered("a scalar to the power of {} is not supported: convert one of them to a floating type",
                         t.text());
    return one(contiguous(common, t.shape));
  };
}

rule prelu() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &weight = a.tensor("weight");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    CUDAL1_CHECK(check_same_type(t, weight, "self", "weight"));
    CUDAL1_CHECK(check_rank(weight, 0, 1, "weight"));
    const int64_t channels = t.dim() > 1 ? t.shape[1] : 1;
    if (weight.numel() != 1 && weight.numel() != channels)
      return refuse("weight has {} elements, but should have 1 or {}", weight.numel(), channels);
    return one({t.type, t.shape, preserved_strides(t)});
  };
}

rule glu() {
  return [](const arguments& a) -> outcome {
    auto half = a.tensor("self");
    CUDAL1_CHECK(check_kind(half, floats, "self"));
    CUDAL1_CHECK(check_rank(half, 1, 64, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), half.dim()));
    auto& size = half.shape[static_cast<std::size_t>(dim)];
    if (size % 2 != 0) return refuse("dimension {} of self has size {}, but should be even", dim, size);
    size /= 2;
    return iterated({half, half}, half.type, half.type);
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> arithmetic_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pointwise, {
      {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", binary({.scaled = true}), {.changes = {.what = effect::onto, .factor = "alpha", .unscaled = "self"}, .neutral = {"other", 0}, .commutes = true, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::sum}, .with_number = "aten::add.Scalar"}},
      {"aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", binary({.scaled = true}), {.changes = {.what = effect::onto, .factor = "alpha", .unscaled = "self"}, .neutral = {"other", 0}, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::sum}}},
      {"aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .scaled = true, .bools = false}), {.changes = {.what = effect::onto, .factor = "alpha", .unscaled = "self"}, .neutral = {"other", 0}, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::difference}, .with_number = "aten::sub.Scalar"}, {"aten::subtract.Tensor"}},
      {"aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .scaled = true, .bools = false}), {.changes = {.what = effect::onto, .factor = "alpha", .unscaled = "self"}, .neutral = {"other", 0}, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::difference}}},
      {"aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .swapped = true, .scaled = true, .bools = false}), {.changes = {.what = effect::onto, .factor = "alpha"}, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::reversed_difference}, .with_number = "aten::rsub.Scalar"}},
      {"aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .swapped = true, .scaled = true, .bools = false}), {.changes = {.what = effect::onto, .factor = "alpha"}, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::reversed_difference}}},
      {"aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", binary(), {.changes = {effect::onto, effect_condition::nonzero_others, {}, "other"}, .neutral = {"other", 1}, .commutes = true, .keeps_zeros = true, .linear = linearity::each_operand, .kernel = element_kernel{"$0 * $1", 1, kernel_form::arithmetic}, .with_number = "aten::mul.Scalar"}, {"aten::multiply.Tensor"}},
      {"aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", binary(), {.changes = {effect::onto, effect_condition::nonzero_others, {}, "other"}, .neutral = {"other", 1}, .keeps_zeros = true, .linear = linearity::each_operand, .kernel = element_kernel{"$0 * $1", 1, kernel_form::arithmetic}}},
      {"aten::div.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true}), {.changes = {.what = effect::onto, .operand = "self", .factor = "other"}, .neutral = {"other", 1}, .poles = true, .keeps_zeros = true, .linear = linearity::first_operand, .kernel = element_kernel{"$0 / $1", 4}, .with_number = "aten::div.Scalar"}, {"aten::divide.Tensor", "aten::true_divide.Tensor"}},
      {"aten::div.Scalar(Tensor self, Scalar other) -> Tensor", binary({.to_float = true}), {.changes = {.what = effect::onto, .operand = "self", .factor = "other"}, .neutral = {"other", 1}, .poles = true, .keeps_zeros = true, .linear = linearity::first_operand, .kernel = element_kernel{"$0 / $1", 4}}},
      {"aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", divide_rounded(), {.poles = true, .keeps_zeros = true, .with_number = "aten::div.Scalar_mode"}},
      {"aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", divide_rounded(), {.poles = true, .keeps_zeros = true}},
      {"aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = numbers}), {.poles = true, .with_number = "aten::remainder.Scalar"}},
      {"aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = numbers}), {.poles = true}},
      {"aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = numbers}), {.poles = true, .with_number = "aten::fmod.Scalar"}},
      {"aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = numbers}), {.poles = true}},
      {"aten::floor_divide(Tensor self, Tensor other) -> Tensor", binary({.accepted = numbers}), {.poles = true, .with_number = "aten::floor_divide.Scalar"}},
      {"aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = numbers}), {.poles = true}},
      {"aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", power(), {.partial = true, .with_number = "aten::pow.Tensor_Scalar"}},
      {"aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", power(), {.changes = {.what = effect::smooth, .factor = "exponent"}, .neutral = {"exponent", 1}, .partial = true, .kernel = element_kernel{.form = kernel_form::power}}},
      {"aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor", scalar_power(), {.partial = true}},
      {"aten::minimum(Tensor self, Tensor other) -> Tensor", binary(), {.commutes = true, .kernel = element_kernel{"$0 < $1 || $0 != $0 ? $0 : $1"}, .with_number = "aten::clamp_max"}, {"aten::min.other"}},
      {"aten::maximum(Tensor self, Tensor other) -> Tensor", binary(), {.commutes = true, .kernel = element_kernel{"$0 > $1 || $0 != $0 ? $0 : $1"}, .with_number = "aten::clamp_min"}, {"aten::max.other"}},
      {"aten::fmin(Tensor self, Tensor other) -> Tensor", binary()},
      {"aten::fmax(Tensor self, Tensor other) -> Tensor", binary()},
      {"aten::atan2(Tensor self, Tensor other) -> Tensor", binary({.to_float = true})},
  });
  // clang-format on
}

std::vector<operator_record> comparison_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pointwise, {
      {"aten::eq.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 == $1", 1, kernel_form::comparison}, .with_number = "aten::eq.Scalar"}},
      {"aten::eq.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 == $1", 1, kernel_form::comparison}}},
      {"aten::ne.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 != $1", 1, kernel_form::comparison}, .with_number = "aten::ne.Scalar"}, {"aten::not_equal.Tensor"}},
      {"aten::ne.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 != $1", 1, kernel_form::comparison}}, {"aten::not_equal.Scalar"}},
      {"aten::lt.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 < $1", 1, kernel_form::comparison}, .with_number = "aten::lt.Scalar"}, {"aten::less.Tensor"}},
      {"aten::lt.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 < $1", 1, kernel_form::comparison}}, {"aten::less.Scalar"}},
      {"aten::le.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 <= $1", 1, kernel_form::comparison}, .with_number = "aten::le.Scalar"}, {"aten::less_equal.Tensor"}},
      {"aten::le.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 <= $1", 1, kernel_form::comparison}}, {"aten::less_equal.Scalar"}},
      {"aten::gt.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 > $1", 1, kernel_form::comparison}, .with_number = "aten::gt.Scalar"}, {"aten::greater.Tensor"}},
      {"aten::gt.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 > $1", 1, kernel_form::comparison}}, {"aten::greater.Scalar"}},
      {"aten::ge.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 >= $1", 1, kernel_form::comparison}, .with_number = "aten::ge.Scalar"}, {"aten::greater_equal.Tensor"}},
      {"aten::ge.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_}), {.kernel = element_kernel{"$0 >= $1", 1, kernel_form::comparison}}, {"aten::greater_equal.Scalar"}},
      {"aten::logical_and(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
      {"aten::logical_or(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
      {"aten::logical_xor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
  });
  // clang-format on
}

std::vector<operator_record> bit_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pointwise, {
      {"aten::bitwise_left_shift.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = integers}), {.neutral = {"other", 0}, .kernel = element_kernel{.cost = 2, .form = kernel_form::left_shift}, .with_number = "aten::bitwise_left_shift.Tensor_Scalar"}, {"aten::__lshift__.Tensor"}},
      {"aten::bitwise_left_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = integers}), {.neutral = {"other", 0}, .keeps_zeros = true, .kernel = element_kernel{.cost = 2, .form = kernel_form::left_shift}}, {"aten::__lshift__.Scalar"}},
      {"aten::bitwise_left_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", binary({.accepted = integers}), {.kernel = element_kernel{.cost = 2, .form = kernel_form::left_shift}}},
      {"aten::bitwise_right_shift.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = integers}), {.neutral = {"other", 0}, .kernel = element_kernel{.cost = 2, .form = kernel_form::right_shift}, .with_number = "aten::bitwise_right_shift.Tensor_Scalar"}, {"aten::__rshift__.Tensor"}},
      {"aten::bitwise_right_shift.Tensor_Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = integers}), {.neutral = {"other", 0}, .keeps_zeros = true, .kernel = element_kernel{.cost = 2, .form = kernel_form::right_shift}}, {"aten::__rshift__.Scalar"}},
      {"aten::bitwise_right_shift.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", binary({.accepted = integers}), {.kernel = element_kernel{.cost = 2, .form = kernel_form::right_shift}}},
      {"aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.commutes = true, .kernel = element_kernel{"$0 & $1", 1, kernel_form::bits}, .with_number = "aten::bitwise_and.Scalar"}, {"aten::__and__.Tensor"}},
      {"aten::bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.neutral = {"other", -1}, .keeps_zeros = true, .kernel = element_kernel{"$0 & $1", 1, kernel_form::bits}}, {"aten::__and__.Scalar"}},
      {"aten::bitwise_and.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.kernel = element_kernel{"$0 & $1", 1, kernel_form::bits}}},
      {"aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.commutes = true, .kernel = element_kernel{"$0 | $1", 1, kernel_form::bits}, .with_number = "aten::bitwise_or.Scalar"}, {"aten::__or__.Tensor"}},
      {"aten::bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.neutral = {"other", 0}, .kernel = element_kernel{"$0 | $1", 1, kernel_form::bits}}, {"aten::__or__.Scalar"}},
      {"aten::bitwise_or.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.kernel = element_kernel{"$0 | $1", 1, kernel_form::bits}}},
      {"aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.commutes = true, .kernel = element_kernel{"$0 ^ $1", 1, kernel_form::bits}, .with_number = "aten::bitwise_xor.Scalar"}, {"aten::__xor__.Tensor"}},
      {"aten::bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.neutral = {"other", 0}, .kernel = element_kernel{"$0 ^ $1", 1, kernel_form::bits}}, {"aten::__xor__.Scalar"}},
      {"aten::bitwise_xor.Scalar_Tensor(Scalar self, Tensor other) -> Tensor", binary({.accepted = bools | integers, .wraps = true}), {.kernel = element_kernel{"$0 ^ $1", 1, kernel_form::bits}}},
  });
  // clang-format on
}

std::vector<operator_record> binary_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pointwise, {
      {"aten::logaddexp(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
      {"aten::logaddexp2(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
      {"aten::nextafter(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
      {"aten::hypot(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
      {"aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true}), {.with_number = "aten::copysign.Scalar"}},
      {"aten::copysign.Scalar(Tensor self, Scalar other) -> Tensor", binary({.to_float = true})},
      {"aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true}), {.partial = true}},
      {"aten::heaviside(Tensor self, Tensor values) -> Tensor", binary()},
      {"aten::prelu(Tensor self, Tensor weight) -> Tensor", prelu(), {.identity = non_negative}},
      {"aten::glu(Tensor self, int dim=-1) -> Tensor", glu()},
  });
  // clang-format on
}

}  // namespace cudal1
