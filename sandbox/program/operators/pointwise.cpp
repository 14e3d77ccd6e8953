// Pointwise operators of one tensor: the iterator's layout, and type promotion with scalars.
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

rule unary(unsigned accepted) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    CUDAL1_CHECK(check_kind(t, accepted, "self"));
    return iterated({t}, t.type, t.type);
  };
}

rule unary_to(unsigned accepted, dtype result) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    CUDAL1_CHECK(check_kind(t, accepted, "self"));
    return iterated({t}, t.type, result);
  };
}

rule unary_float() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    return iterated({t}, float_of(t.type), float_of(t.type));
  };
}

rule square() {  // pow(self, 2)
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    const dtype type = t.type == dtype::bool_ ? dtype::int64 : t.type;
    return iterated({t}, type, type);
  };
}

// self.abs() == inf, or != inf, where each step has its own layout.
expected<tensor_type> compared_with_infinity(const tensor_type& t) {
  CUDAL1_TRY(const auto magnitude, iterate({t}, t.type, t.type));
  return iterate({magnitude, scalar_operand(t.type)}, t.type, dtype::bool_);
}

// self.abs() == inf; for types other than floating ones at::zeros_like.
rule is_infinite() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    if (!is_floating(t.type)) return one({dtype::bool_, t.shape, preserved_strides(t)});
    CUDAL1_TRY(auto compared, compared_with_infinity(t));
    return one(std::move(compared));
  };
}

// (self == self) * (self.abs() != inf); for types other than floating ones at::ones_like.
rule is_finite() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    if (!is_floating(t.type)) return one({dtype::bool_, t.shape, preserved_strides(t)});
    CUDAL1_TRY(const auto compared, compared_with_infinity(t));
    CUDAL1_TRY(const auto is_number, iterate({t, t}, t.type, dtype::bool_));
    return iterated({is_number, compared}, dtype::bool_, dtype::bool_);
  };
}

rule preserving(unsigned accepted) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    CUDAL1_CHECK(check_kind(t, accepted, "self"));
    return one({t.type, t.shape, preserved_strides(t)});
  };
}

rule preserving_float() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    return one({float_of(t.type), t.shape, preserved_strides(t)});
  };
}

rule fixed_contiguous(unsigned accepted) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    CUDAL1_CHECK(check_kind(t, accepted, "self"));
    return one(contiguous(t.type, t.shape));
  };
}

rule clamp_scalars(std::string_view low, std::string_view high) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    dtype common = t.type;
    int bounds = 0;
    promotion types;
    types.add(t);
    for (const auto name : {low, high})
      if (!name.empty() && !a.is_null(name)) {
        types.add(a.scalar(name));
        ++bounds;
      }
    if (bounds == 0) return refuse("min and max are both null: one of them should be a number");
    if (!is_floating(common)) common = types.result();
    for (const auto name : {low, high})
      if (!name.empty() && !a.is_null(name)) CUDAL1_CHECK(check_scalar_fits(a.scalar(name), common, name));
    return iterated({converted(t, common)}, common, common);
  };
}

}  // namespace

}  // namespace rules

namespace {

constexpr int transcendental = 12;  // the cost, in additions

}  // namespace

std::vector<operator_record> elementary_function_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pointwise, {
      {"aten::exp(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .range = non_negative, .kernel = element_kernel{"expf($0)", transcendental}}},
      {"aten::exp2(Tensor self) -> Tensor", unary_float()},
      {"aten::expm1(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .kernel = element_kernel{"expm1f($0)", transcendental}}},
      {"aten::log(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .partial = true, .kernel = element_kernel{"logf($0)", transcendental}}},
      {"aten::log2(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .partial = true}},
      {"aten::log10(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .partial = true}},
      {"aten::log1p(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .partial = true, .kernel = element_kernel{"log1pf($0)", transcendental}}, {"aten::special_log1p"}},
      {"aten::sqrt(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .range = non_negative, .partial = true, .kernel = element_kernel{"sqrtf($0)", 4}}},
      {"aten::rsqrt(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .range = non_negative, .partial = true, .kernel = element_kernel{"1.0f / sqrtf($0)", 8}}},
      {"aten::reciprocal(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .poles = true, .kernel = element_kernel{"1.0f / $0", 4}}},
      {"aten::sin(Tensor self) -> Tensor", unary_float(), {.changes = {effect::smooth}, .range = bounds{-1, 1}, .kernel = element_kernel{"sinf($0)", transcendental}}},
      {"aten::cos(Tensor self) -> Tensor", unary_float(), {.changes = {effect::smooth}, .range = bounds{-1, 1}, .kernel = element_kernel{"cosf($0)", transcendental}}},
      {"aten::tan(Tensor self) -> Tensor", unary_float(), {.poles = true}},
      {"aten::asin(Tensor self) -> Tensor", unary_float(), {.partial = true}, {"aten::arcsin"}},
      {"aten::acos(Tensor self) -> Tensor", unary_float(), {.partial = true}, {"aten::arccos"}},
      {"aten::atan(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}}, {"aten::arctan"}},
      {"aten::sinh(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}}},
      {"aten::cosh(Tensor self) -> Tensor", unary_float(), {.changes = {effect::smooth}}},
      {"aten::tanh(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .range = bounds{-1, 1}, .kernel = element_kernel{"tanhf($0)", transcendental}}},
      {"aten::asinh(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}}},
      {"aten::acosh(Tensor self) -> Tensor", unary_float(), {.partial = true}},
      {"aten::atanh(Tensor self) -> Tensor", unary_float(), {.partial = true}},
      {"aten::sigmoid(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .range = bounds{0, 1}, .kernel = element_kernel{"1.0f / (1.0f + __expf(-$0))", transcendental + 5}}, {"aten::special_expit"}},
      {"aten::erf(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}, .range = bounds{-1, 1}, .kernel = element_kernel{"erff($0)", transcendental}}},
      {"aten::erfc(Tensor self) -> Tensor", unary_float(), {.changes = {effect::one_to_one}}},
      {"aten::lgamma(Tensor self) -> Tensor", unary_float(), {.partial = true}},
      {"aten::erfinv(Tensor self) -> Tensor", unary_float(), {.poles = true}},
      {"aten::digamma(Tensor self) -> Tensor", unary_float(), {.poles = true}},
      {"aten::deg2rad(Tensor self) -> Tensor", preserving_float()},
      {"aten::rad2deg(Tensor self) -> Tensor", preserving_float()},
      {"aten::sinc(Tensor self) -> Tensor", unary_float()},
      {"aten::logit(Tensor self, float? eps=None) -> Tensor", unary_float(), {.poles = true}},
  });
  // clang-format on
}

std::vector<operator_record> pointwise_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pointwise, {
      {"aten::relu(Tensor self) -> Tensor", unary(numbers), {.changes = {effect::constant_on_intervals}, .clips = clipping{non_negative}, .kernel = element_kernel{"$0 < 0.0f ? 0.0f : $0"}}},
      {"aten::relu6(Tensor self) -> Tensor", preserving(numbers), {.changes = {effect::constant_on_intervals}, .clips = clipping{{0, 6}}, .kernel = element_kernel{"$0 < 0.0f ? 0.0f : ($0 > 6.0f ? 6.0f : $0)", 2}}},
      {"aten::abs(Tensor self) -> Tensor", unary(numbers), {.changes = {effect::constant_on_intervals}, .range = non_negative, .identity = non_negative, .kernel = element_kernel{"fabsf($0)"}}, {"aten::absolute"}},
      {"aten::neg(Tensor self) -> Tensor", unary(numbers), {.changes = {effect::onto}, .is_self_inverse = true, .keeps_zeros = true, .linear = linearity::each_operand, .kernel = element_kernel{"-$0", 1, kernel_form::arithmetic}}, {"aten::negative"}},
      {"aten::floor(Tensor self) -> Tensor", unary(numbers)},
      {"aten::ceil(Tensor self) -> Tensor", unary(numbers)},
      {"aten::round(Tensor self) -> Tensor", unary(numbers)},
      {"aten::trunc(Tensor self) -> Tensor", unary(numbers)},
      {"aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", unary(numbers), {.kernel = element_kernel{"$0 <= $1 ? $2 : $0"}}},
      {"aten::sign(Tensor self) -> Tensor", unary(any)},
      {"aten::sgn(Tensor self) -> Tensor", unary(any)},
      {"aten::bitwise_not(Tensor self) -> Tensor", unary(bools | integers), {.is_self_inverse = true, .kernel = element_kernel{.form = kernel_form::complement}}},
      {"aten::frac(Tensor self) -> Tensor", unary(floats)},
      {"aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", unary(floats), {.changes = {effect::smooth}, .kernel = element_kernel{.form = kernel_form::gelu}}},
      {"aten::silu(Tensor self) -> Tensor", unary(floats), {.changes = {effect::smooth}, .kernel = element_kernel{"$0 / (1.0f + __expf(-$0))", transcendental + 5}}},
      {"aten::mish(Tensor self) -> Tensor", unary(floats), {.changes = {effect::smooth}, .kernel = element_kernel{.form = kernel_form::mish}}},
      {"aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", preserving(floats), {.changes = {effect::constant_on_intervals}, .clips = clipping{{-1, 1}, "min_val", "max_val"}, .kernel = element_kernel{"$0 < $1 ? $1 : ($0 > $2 ? $2 : $0)", 2}}},
      {"aten::hardswish(Tensor self) -> Tensor", unary(floats), {.changes = {effect::constant_on_intervals}, .kernel = element_kernel{"$0 * ($0 + 3.0f < 0.0f ? 0.0f : ($0 + 3.0f > 6.0f ? 6.0f : $0 + 3.0f)) / 6.0f", 7}}},
      {"aten::hardsigmoid(Tensor self) -> Tensor", unary(floats), {.changes = {effect::constant_on_intervals}, .range = bounds{0, 1}, .kernel = element_kernel{"($0 + 3.0f < 0.0f ? 0.0f : ($0 + 3.0f > 6.0f ? 6.0f : $0 + 3.0f)) / 6.0f", 6}}},
      {"aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", unary(floats), {.changes = {effect::one_to_one}, .kernel = element_kernel{"$0 * $1 > $2 ? $0 : log1pf(expf($0 * $1)) / $1", 2 * transcendental}}},
      {"aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", unary(floats), {.changes = {effect::constant_on_intervals}, .identity = non_negative, .kernel = element_kernel{"$0 > 0.0f ? $0 * $2 : $1 * $2 * expm1f($0 * $3)", transcendental}}},
      {"aten::selu(Tensor self) -> Tensor", unary(floats), {.changes = {effect::one_to_one}, .kernel = element_kernel{"1.0507009873554804934193349852946f * ($0 > 0.0f ? $0 : 1.6732632423543772848170429916717f * expm1f($0))", transcendental}}},
      {"aten::celu(Tensor self, Scalar alpha=1.) -> Tensor", unary(floats)},
      {"aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", unary(floats), {.changes = {effect::constant_on_intervals}, .identity = non_negative, .kernel = element_kernel{"$0 > 0.0f ? $0 : $0 * $1", 2}}},
      {"aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", unary(floats)},
      {"aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", unary(floats)},
      {"aten::log_sigmoid(Tensor self) -> Tensor", fixed_contiguous(floats), {.changes = {effect::one_to_one}}},
      {"aten::square(Tensor self) -> Tensor", square(), {.changes = {effect::smooth}, .range = non_negative, .kernel = element_kernel{"$0 * $0"}}},
      {"aten::logical_not(Tensor self) -> Tensor", unary_to(any, dtype::bool_)},
      {"aten::isnan(Tensor self) -> Tensor", unary_to(any, dtype::bool_)},
      {"aten::isinf(Tensor self) -> Tensor", is_infinite()},
      {"aten::isfinite(Tensor self) -> Tensor", is_finite()},
      {"aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", preserving(any)},
      {"aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp_scalars("min", "max"), {.changes = {effect::constant_on_intervals}, .clips = clipping{{}, "min", "max"}, .kernel = element_kernel{.form = kernel_form::clamp}}, {"aten::clip"}},
      {"aten::clamp_min(Tensor self, Scalar min) -> Tensor", clamp_scalars("min", ""), {.changes = {effect::constant_on_intervals}, .clips = clipping{{}, "min", {}}, .kernel = element_kernel{.form = kernel_form::clamp}}},
      {"aten::clamp_max(Tensor self, Scalar max) -> Tensor", clamp_scalars("", "max"), {.changes = {effect::constant_on_intervals}, .clips = clipping{{}, {}, "max"}, .kernel = element_kernel{.form = kernel_form::clamp}}},
  });
  // clang-format on
}

}  // namespace cudal1
