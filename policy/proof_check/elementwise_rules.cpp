#include <algorithm>
#include <cmath>

#include "policy/proof_check/element_operators.hpp"

namespace cudal1 {

namespace {

using step = element_step;

// An operator of one operand and no numbers.
template <double (*F)(double)>
double unary(const step& s, const place& p) {
  return F(s.element("self", p));
}
template <double (*F)(double, double)>
double binary(const step& s, const place& p) {
  return F(s.broadcast("self", p), s.broadcast("other", p));
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
// Of NaN it is NaN, as of all operators that clamp, and with such a limit.
double clamp(double x, double low, double high) {
  return std::isnan(x) || std::isnan(low) || std::isnan(high) ? NAN : std::min(std::max(x, low), high);
}
double relu(double x) {
  return clamp(x, 0, INFINITY);
}
double relu6(double x) {
  return clamp(x, 0, 6);
}
double hardsigmoid(double x) {
  return clamp(x + 3, 0, 6) / 6;
}
double hardswish(double x) {
  return x * hardsigmoid(x);
}
double silu(double x) {
  return x * sigmoid(x);
}
double mish(double x) {
  return x * std::tanh(std::log1p(std::exp(x)));
}
double selu(double x) {
  return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x));
}
double negative(double x) {
  return -x;
}
double square(double x) {
  return x * x;
}
double reciprocal(double x) {
  return 1 / x;
}
double inverse_root(double x) {
  return 1 / std::sqrt(x);
}
double sign(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : x;
}
double product(double a, double b) {
  return a * b;
}
double quotient(double a, double b) {
  return a / b;
}
double larger(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
}
double smaller(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
}

double sum(const step& s, const place& p) {
  return s.broadcast("self", p) + s.number("alpha", 1) * s.broadcast("other", p);
}
double difference(const step& s, const place& p) {
  return s.broadcast("self", p) - s.number("alpha", 1) * s.broadcast("other", p);
}
double reversed_difference(const step& s, const place& p) {
  return s.broadcast("other", p) - s.number("alpha", 1) * s.broadcast("self", p);
}
double power(const step& s, const place& p) {
  return std::pow(s.broadcast("self", p), s.broadcast("exponent", p));
}
// The limits may be tensors.
double clamped(const step& s, const place& p) {
  const auto limit = [&](const char* name, double otherwise) {
    return s.has(name) ? s.broadcast(name, p) : s.number(name, otherwise);
  };
  return clamp(s.broadcast("self", p), limit("min", -INFINITY), limit("max", INFINITY));
}
double hardtanh(const step& s, const place& p) {
  return clamp(s.element("self", p), s.number("min_val", -1), s.number("max_val", 1));
}
double leaky_relu(const step& s, const place& p) {
  const double x = s.element("self", p);
  return x > 0 ? x : x * s.number("negative_slope", 0.01);
}
double elu(const step& s, const place& p) {
  const double x = s.element("self", p);
  return s.number("scale", 1) * (x > 0 ? x : s.number("alpha", 1) * std::expm1(x * s.number("input_scale", 1)));
}
double softplus(const step& s, const place& p) {
  const double x = s.element("self", p), beta = s.number("beta", 1);
  return x * beta > s.number("threshold", 20) ? x : std::log1p(std::exp(x * beta)) / beta;
}
double gelu(const step& s, const place& p) {
  const double x = s.element("self", p);
  if (string_argument(s.step(), "approximate").value_or("none") == "tanh") return gelu_by_tanh(x);
  return x * 0.5 * (1 + std::erf(x * std::sqrt(0.5)));
}
double threshold(const step& s, const place& p) {
  const double x = s.element("self", p);
  return x <= s.number("threshold", 0) ? s.number("value", 0) : x;
}
double differs(double a, double b) {
  return a != b ? 1 : 0;
}
double where(const step& s, const place& p) {
  return s.broadcast("condition", p) != 0 ? s.broadcast("self", p) : s.broadcast("other", p);
}
double masked_fill(const step& s, const place& p) {
  return s.broadcast("mask", p) != 0 ? s.broadcast("value", p) : s.broadcast("self", p);
}

// ---- bits ----

int64_t width_of(dtype t) {
  return t == dtype::bool_ ? 1 : 8 * size_of(t);
}
// The lowest bits as a number of the type.
double of_lowest_bits(uint64_t bits, dtype t) {
  const int64_t unused = 64 - width_of(t);
  const bool has_sign = t != dtype::uint8 && t != dtype::bool_;
  bits <<= unused;
  return has_sign ? static_cast<double>(static_cast<int64_t>(bits) >> unused) : static_cast<double>(bits >> unused);
}
uint64_t both(uint64_t a, uint64_t b) {
  return a & b;
}
uint64_t either(uint64_t a, uint64_t b) {
  return a | b;
}
uint64_t one_of(uint64_t a, uint64_t b) {
  return a ^ b;
}
template <uint64_t (*F)(uint64_t, uint64_t)>
double of_bits(const step& s, const place& p) {
  const auto bits = [&](const char* name) { return static_cast<uint64_t>(static_cast<int64_t>(s.broadcast(name, p))); };
  return of_lowest_bits(F(bits("self"), bits("other")), s.result().type);
}
double complement(const step& s, const place& p) {
  return of_lowest_bits(~static_cast<uint64_t>(static_cast<int64_t>(s.element("self", p))), s.result().type);
}
// An amount that is negative, or not less than the width, moves all bits out.
double left_shift(const step& s, const place& p) {
  const double by = s.broadcast("other", p);
  if (by < 0 || by >= static_cast<double>(width_of(s.result().type))) return 0;
  const auto bits = static_cast<uint64_t>(static_cast<int64_t>(s.broadcast("self", p)));
  return of_lowest_bits(bits << static_cast<uint64_t>(by), s.result().type);
}
double right_shift(const step& s, const place& p) {
  const double x = s.broadcast("self", p), by = s.broadcast("other", p);
  if (by < 0 || by >= static_cast<double>(width_of(s.result().type))) return x < 0 ? -1 : 0;
  return std::floor(std::ldexp(x, -static_cast<int>(by)));
}

// ---- internal operators ----

double row_scale(const step& s, const place& p) {
  const int64_t i = (s.boolean("scales_rows") ? p[0] : p[1]) * s.integer("diagonal_stride", 0);
  return s.element("diagonal", place_of(i, s.type("diagonal").shape)) * s.element("matrix", p);
}

}  // namespace

double gelu_by_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

element_rules elementwise_rules() {
  return {{"aten::relu", unary<relu>},
          {"aten::relu6", unary<relu6>},
          {"aten::sigmoid", unary<sigmoid>},
          {"aten::tanh", unary<std::tanh>},
          {"aten::silu", unary<silu>},
          {"aten::mish", unary<mish>},
          {"aten::selu", unary<selu>},
          {"aten::hardsigmoid", unary<hardsigmoid>},
          {"aten::hardswish", unary<hardswish>},
          {"aten::exp", unary<std::exp>},
          {"aten::log", unary<std::log>},
          {"aten::sqrt", unary<std::sqrt>},
          {"aten::rsqrt", unary<inverse_root>},
          {"aten::reciprocal", unary<reciprocal>},
          {"aten::sin", unary<std::sin>},
          {"aten::cos", unary<std::cos>},
          {"aten::asinh", unary<std::asinh>},
          {"aten::atan", unary<std::atan>},
          {"aten::erf", unary<std::erf>},
          {"aten::abs", unary<std::fabs>},
          {"aten::neg", unary<negative>},
          {"aten::square", unary<square>},
          {"aten::sign", unary<sign>},
          {"aten::gelu", gelu},
          {"aten::hardtanh", hardtanh},
          {"aten::leaky_relu", leaky_relu},
          {"aten::elu", elu},
          {"aten::softplus", softplus},
          {"aten::threshold", threshold},
          {"aten::clamp", clamped},
          {"aten::clamp_min", clamped},
          {"aten::clamp_max", clamped},
          {"aten::clamp.Tensor", clamped},
          {"aten::clamp_min.Tensor", clamped},
          {"aten::clamp_max.Tensor", clamped},
          {"aten::pow.Tensor_Scalar", power},
          {"aten::pow.Tensor_Tensor", power},
          {"aten::add.Tensor", sum},
          {"aten::add.Scalar", sum},
          {"aten::sub.Tensor", difference},
          {"aten::sub.Scalar", difference},
          {"aten::rsub.Tensor", reversed_difference},
          {"aten::rsub.Scalar", reversed_difference},
          {"aten::mul.Tensor", binary<product>},
          {"aten::mul.Scalar", binary<product>},
          {"aten::div.Tensor", binary<quotient>},
          {"aten::div.Scalar", binary<quotient>},
          {"aten::maximum", binary<larger>},
          {"aten::ne.Tensor", binary<differs>},
          {"aten::ne.Scalar", binary<differs>},
          {"aten::minimum", binary<smaller>},
          {"aten::where.self", where},
          {"aten::where.ScalarSelf", where},
          {"aten::where.ScalarOther", where},
          {"aten::masked_fill.Scalar", masked_fill},
          {"aten::masked_fill.Tensor", masked_fill},
          {"aten::bitwise_not", complement},
          {"aten::bitwise_and.Tensor", of_bits<both>},
          {"aten::bitwise_and.Scalar", of_bits<both>},
          {"aten::bitwise_and.Scalar_Tensor", of_bits<both>},
          {"aten::bitwise_or.Tensor", of_bits<either>},
          {"aten::bitwise_or.Scalar", of_bits<either>},
          {"aten::bitwise_or.Scalar_Tensor", of_bits<either>},
          {"aten::bitwise_xor.Tensor", of_bits<one_of>},
          {"aten::bitwise_xor.Scalar", of_bits<one_of>},
          {"aten::bitwise_xor.Scalar_Tensor", of_bits<one_of>},
          {"aten::bitwise_left_shift.Tensor", left_shift},
          {"aten::bitwise_left_shift.Tensor_Scalar", left_shift},
          {"aten::bitwise_left_shift.Scalar_Tensor", left_shift},
          {"aten::bitwise_right_shift.Tensor", right_shift},
          {"aten::bitwise_right_shift.Tensor_Scalar", right_shift},
          {"aten::bitwise_right_shift.Scalar_Tensor", right_shift},
          {"cudal1::row_scale", row_scale}};
}

}  // namespace cudal1
