// The table of operators: one line each, its schema as ATen 2.11 prints it and the rule that types its results.
#include "sandbox/program/operators/operators.hpp"

#include <algorithm>
#include <stdexcept>

#include "sandbox/program/operators/operator_lines.hpp"
#include "sandbox/program/operators/operator_rules.hpp"

namespace cudal1 {

namespace {

using namespace rules;

struct line {
  const char* schema;
  rule types;
  bool relaid = false;  // operator_info's
};

const std::vector<line>& lines() {
  // clang-format off
  static const std::vector<line> all = {
    // pointwise, one operand
    {"aten::exp(Tensor self) -> Tensor", unary_float()},
    {"aten::exp2(Tensor self) -> Tensor", unary_float()},
    {"aten::expm1(Tensor self) -> Tensor", unary_float()},
    {"aten::log(Tensor self) -> Tensor", unary_float()},
    {"aten::log2(Tensor self) -> Tensor", unary_float()},
    {"aten::log10(Tensor self) -> Tensor", unary_float()},
    {"aten::log1p(Tensor self) -> Tensor", unary_float()},
    {"aten::sqrt(Tensor self) -> Tensor", unary_float()},
    {"aten::rsqrt(Tensor self) -> Tensor", unary_float()},
    {"aten::reciprocal(Tensor self) -> Tensor", unary_float()},
    {"aten::sin(Tensor self) -> Tensor", unary_float()},
    {"aten::cos(Tensor self) -> Tensor", unary_float()},
    {"aten::tan(Tensor self) -> Tensor", unary_float()},
    {"aten::asin(Tensor self) -> Tensor", unary_float()},
    {"aten::acos(Tensor self) -> Tensor", unary_float()},
    {"aten::atan(Tensor self) -> Tensor", unary_float()},
    {"aten::sinh(Tensor self) -> Tensor", unary_float()},
    {"aten::cosh(Tensor self) -> Tensor", unary_float()},
    {"aten::tanh(Tensor self) -> Tensor", unary_float()},
    {"aten::asinh(Tensor self) -> Tensor", unary_float()},
    {"aten::acosh(Tensor self) -> Tensor", unary_float()},
    {"aten::atanh(Tensor self) -> Tensor", unary_float()},
    {"aten::sigmoid(Tensor self) -> Tensor", unary_float()},
    {"aten::erf(Tensor self) -> Tensor", unary_float()},
    {"aten::erfc(Tensor self) -> Tensor", unary_float()},
    {"aten::lgamma(Tensor self) -> Tensor", unary_float()},
    {"aten::special_log1p(Tensor self) -> Tensor", unary_float()},
    {"aten::erfinv(Tensor self) -> Tensor", unary_float()},
    {"aten::digamma(Tensor self) -> Tensor", unary_float()},
    {"aten::deg2rad(Tensor self) -> Tensor", preserving_float()},
    {"aten::rad2deg(Tensor self) -> Tensor", preserving_float()},
    {"aten::sinc(Tensor self) -> Tensor", unary_float()},
    {"aten::special_expit(Tensor self) -> Tensor", unary_float()},
    {"aten::arctan(Tensor self) -> Tensor", unary_float()},
    {"aten::arcsin(Tensor self) -> Tensor", unary_float()},
    {"aten::arccos(Tensor self) -> Tensor", unary_float()},
    {"aten::logit(Tensor self, float? eps=None) -> Tensor", unary_float()},
    {"aten::relu(Tensor self) -> Tensor", unary(numbers)},
    {"aten::relu6(Tensor self) -> Tensor", preserving(numbers)},
    {"aten::abs(Tensor self) -> Tensor", unary(numbers)},
    {"aten::absolute(Tensor self) -> Tensor", unary(numbers)},
    {"aten::neg(Tensor self) -> Tensor", unary(numbers)},
    {"aten::negative(Tensor self) -> Tensor", unary(numbers)},
    {"aten::floor(Tensor self) -> Tensor", unary(numbers)},
    {"aten::ceil(Tensor self) -> Tensor", unary(numbers)},
    {"aten::round(Tensor self) -> Tensor", unary(numbers)},
    {"aten::trunc(Tensor self) -> Tensor", unary(numbers)},
    {"aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", unary(numbers)},
    {"aten::sign(Tensor self) -> Tensor", unary(any)},
    {"aten::sgn(Tensor self) -> Tensor", unary(any)},
    {"aten::bitwise_not(Tensor self) -> Tensor", unary(bools | integers)},
    {"aten::frac(Tensor self) -> Tensor", unary(floats)},
    {"aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor", unary(floats)},
    {"aten::silu(Tensor self) -> Tensor", unary(floats)},
    {"aten::mish(Tensor self) -> Tensor", unary(floats)},
    {"aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor", preserving(floats)},
    {"aten::hardswish(Tensor self) -> Tensor", unary(floats)},
    {"aten::hardsigmoid(Tensor self) -> Tensor", unary(floats)},
    {"aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", unary(floats)},
    {"aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", unary(floats)},
    {"aten::selu(Tensor self) -> Tensor", unary(floats)},
    {"aten::celu(Tensor self, Scalar alpha=1.) -> Tensor", unary(floats)},
    {"aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", unary(floats)},
    {"aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor", unary(floats)},
    {"aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", unary(floats)},
    {"aten::log_sigmoid(Tensor self) -> Tensor", fixed_contiguous(floats)},
    {"aten::square(Tensor self) -> Tensor", square()},
    {"aten::logical_not(Tensor self) -> Tensor", unary_to(any, dtype::bool_)},
    {"aten::isnan(Tensor self) -> Tensor", unary_to(any, dtype::bool_)},
    {"aten::isinf(Tensor self) -> Tensor", is_infinite(false)},
    {"aten::isfinite(Tensor self) -> Tensor", is_infinite(true)},
    {"aten::nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", preserving(any)},
    {"aten::clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp_scalars("min", "max")},
    {"aten::clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor", clamp_scalars("min", "max")},
    {"aten::clamp_min(Tensor self, Scalar min) -> Tensor", clamp_scalars("min", "")},
    {"aten::clamp_max(Tensor self, Scalar max) -> Tensor", clamp_scalars("", "max")},
    // pointwise, two operands
    {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", binary({.scaled = true})},
    {"aten::add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", binary({.scaled = true})},
    {"aten::sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .scaled = true, .bools = false})},
    {"aten::sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .scaled = true, .bools = false})},
    {"aten::rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .swapped = true, .scaled = true, .bools = false})},
    {"aten::rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .swapped = true, .scaled = true, .bools = false})},
    {"aten::mul.Tensor(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::mul.Scalar(Tensor self, Scalar other) -> Tensor", binary()},
    {"aten::div.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true})},
    {"aten::div.Scalar(Tensor self, Scalar other) -> Tensor", binary({.to_float = true})},
    {"aten::subtract.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", binary({.accepted = numbers, .scaled = true, .bools = false})},
    {"aten::multiply.Tensor(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::divide.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true})},
    {"aten::true_divide.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true})},
    {"aten::div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor", divide_rounded()},
    {"aten::div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor", divide_rounded()},
    {"aten::remainder.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
    {"aten::remainder.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = floats})},
    {"aten::fmod.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
    {"aten::fmod.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = floats})},
    {"aten::floor_divide(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
    {"aten::floor_divide.Scalar(Tensor self, Scalar other) -> Tensor", binary({.accepted = floats})},
    {"aten::pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", power()},
    {"aten::pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", power()},
    {"aten::pow.Scalar(Scalar self, Tensor exponent) -> Tensor", scalar_power()},
    {"aten::minimum(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::maximum(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::fmin(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::fmax(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::min.other(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::max.other(Tensor self, Tensor other) -> Tensor", binary()},
    {"aten::atan2(Tensor self, Tensor other) -> Tensor", binary({.to_float = true})},
    {"aten::eq.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::eq.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::ne.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::ne.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::lt.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::lt.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::le.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::le.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::gt.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::gt.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::ge.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::ge.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::greater.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::less.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::greater.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::less.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::greater_equal.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::greater_equal.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::less_equal.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::less_equal.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::not_equal.Tensor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::not_equal.Scalar(Tensor self, Scalar other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::logical_and(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::logical_or(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::logical_xor(Tensor self, Tensor other) -> Tensor", binary({.result = dtype::bool_})},
    {"aten::bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = bools | integers})},
    {"aten::bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = bools | integers})},
    {"aten::bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", binary({.accepted = bools | integers})},
    {"aten::logaddexp(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
    {"aten::logaddexp2(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
    {"aten::hypot(Tensor self, Tensor other) -> Tensor", binary({.accepted = floats})},
    {"aten::copysign.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true})},
    {"aten::xlogy.Tensor(Tensor self, Tensor other) -> Tensor", binary({.to_float = true})},
    {"aten::heaviside(Tensor self, Tensor values) -> Tensor", binary({.accepted = floats})},
    // pointwise, more operands and special layouts
    {"aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp_tensors("min", "max")},
    {"aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", clamp_tensors("min", "")},
    {"aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", clamp_tensors("", "max")},
    {"aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", where(false, false)},
    {"aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", where(true, false)},
    {"aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", where(false, true)},
    {"aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", where(true, true)},
    {"aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp(false)},
    {"aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp(true)},
    {"aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addc(numbers)},
    {"aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addc(floats)},
    {"aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", masked_fill(false)},
    {"aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", masked_fill(true)},
    {"aten::prelu(Tensor self, Tensor weight) -> Tensor", prelu()},
    {"aten::glu(Tensor self, int dim=-1) -> Tensor", glu()},
    {"aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", pointwise_loss()},
    {"aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", pointwise_loss()},
    {"aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", pointwise_loss()},
    {"aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", pointwise_loss()},
    // reductions and scans
    {"aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
    {"aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
    {"aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
    {"aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
    {"aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
    {"aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction(floats, reduced_type::floating)},
    {"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(floats, reduced_type::floating)},
    {"aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", reduction(any, reduced_type::same)},
    {"aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", reduction(any, reduced_type::same)},
    {"aten::max(Tensor self) -> Tensor", reduction(any, reduced_type::same)},
    {"aten::min(Tensor self) -> Tensor", reduction(any, reduced_type::same)},
    {"aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", reduction_pair(any)},
    {"aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", reduction_pair(any)},
    {"aten::argmax(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", index_reduction()},
    {"aten::argmin(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", index_reduction()},
    {"aten::any(Tensor self) -> Tensor", reduction(any, reduced_type::truth)},
    {"aten::any.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", reduction(any, reduced_type::truth)},
    {"aten::all(Tensor self) -> Tensor", reduction(any, reduced_type::truth)},
    {"aten::all.dim(Tensor self, int dim, bool keepdim=False) -> Tensor", reduction(any, reduced_type::truth)},
    {"aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", reduction(any, reduced_type::truth)},
    {"aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor", reduction(any, reduced_type::truth)},
    {"aten::count_nonzero(Tensor self, int? dim=None) -> Tensor", reduction(any, reduced_type::int64)},
    {"aten::count_nonzero.dim_IntList(Tensor self, int[] dim) -> Tensor", reduction(any, reduced_type::int64)},
    {"aten::aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", extremes()},
    {"aten::var(Tensor self, bool unbiased=True) -> Tensor", variance()},
    {"aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", variance()},
    {"aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", variance()},
    {"aten::std(Tensor self, bool unbiased=True) -> Tensor", variance()},
    {"aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", variance()},
    {"aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", variance()},
    {"aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
    {"aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", variance_and_mean()},
    {"aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
    {"aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", variance_and_mean()},
    {"aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
    {"aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
    {"aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm_reduction()},
    {"aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", norm_reduction()},
    {"aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", norm_reduction()},
    {"aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", frobenius()},
    {"aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", logsumexp()},
    {"aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative(any, true)},
    {"aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative(any, true)},
    {"aten::logcumsumexp(Tensor self, int dim) -> Tensor", cumulative(floats, false)},
    {"aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", cumulative_extreme()},
    {"aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", cumulative_extreme()},
    {"aten::trace(Tensor self) -> Tensor", trace()},
    // views
    {"aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", view()},
    {"aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", reshape()},
    {"aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor", unsafe_view()},
    {"aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", reshape_as(false)},
    {"aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", reshape_as(true)},
    {"aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", permute()},
    {"aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose("dim0", "dim1")},
    {"aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", transpose("axis0", "axis1")},
    {"aten::swapdims(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose("dim0", "dim1")},
    {"aten::t(Tensor(a) self) -> Tensor(a)", transpose_last(true)},
    {"aten::mT(Tensor(a) self) -> Tensor(a)", transpose_last(false)},
    {"aten::numpy_T(Tensor(a) self) -> Tensor(a)", reverse_dimensions()},
    {"aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", movedim()},
    {"aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", movedims()},
    {"aten::moveaxis.int(Tensor(a) self, int source, int destination) -> Tensor(a)", movedim()},
    {"aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", expand()},
    {"aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", expand_as()},
    {"aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)", expand()},
    {"aten::squeeze(Tensor(a) self) -> Tensor(a)", squeeze()},
    {"aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", squeeze()},
    {"aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", squeeze()},
    {"aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", unsqueeze()},
    {"aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", slice()},
    {"aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", select()},
    {"aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", narrow()},
    {"aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", flatten()},
    {"aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", unflatten()},
    {"aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", diagonal()},
    {"aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold()},
    {"aten::alias(Tensor(a) self) -> Tensor(a)", alias()},
    {"aten::detach(Tensor(a) self) -> Tensor(a)", alias()},
    // lists of views
    {"aten::split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]", split()},
    {"aten::split_with_sizes(Tensor(a -> *) self, SymInt[] split_sizes, int dim=0) -> Tensor(a)[]", split_with_sizes()},
    {"aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]", chunk()},
    {"aten::tensor_split.sections(Tensor(a -> *) self, SymInt sections, int dim=0) -> Tensor(a)[]", tensor_split()},
    {"aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]", unbind()},
    // copies and conversions
    {"aten::contiguous(Tensor(a) self, *, MemoryFormat memory_format=0) -> Tensor(a)", contiguous_copy()},
    {"aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", clone()},
    {"aten::to.dtype(Tensor(a) self, ScalarType dtype, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_type()},
    {"aten::to.dtype_layout(Tensor(a) self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, MemoryFormat? memory_format=None) -> Tensor(a)", to_type()},
    {"aten::type_as(Tensor self, Tensor other) -> Tensor", to_type()},
    {"aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor", to_copy()},
    {"aten::lift_fresh_copy(Tensor self) -> Tensor", lift()},
    {"aten::dropout(Tensor input, float p, bool train) -> Tensor", dropout()},
    {"aten::alpha_dropout(Tensor input, float p, bool train) -> Tensor", dropout()},
    {"aten::feature_dropout(Tensor input, float p, bool train) -> Tensor", dropout()},
    // products
    {"aten::mm(Tensor self, Tensor mat2) -> Tensor", mm()},
    {"aten::bmm(Tensor self, Tensor mat2) -> Tensor", bmm()},
    {"aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmm()},
    {"aten::baddbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", baddbmm()},
    {"aten::matmul(Tensor self, Tensor other) -> Tensor", matmul()},
    {"aten::linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor", linear()},
    {"aten::mv(Tensor self, Tensor vec) -> Tensor", mv()},
    {"aten::dot(Tensor self, Tensor tensor) -> Tensor", dot()},
    {"aten::outer(Tensor self, Tensor vec2) -> Tensor", outer()},
    {"aten::addmv(Tensor self, Tensor mat, Tensor vec, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addmv()},
    {"aten::addbmm(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", addbmm()},
    {"aten::inner(Tensor self, Tensor other) -> Tensor", inner()},
    {"aten::tensordot(Tensor self, Tensor other, int[] dims_self, int[] dims_other) -> Tensor", tensordot()},
    {"aten::bilinear(Tensor input1, Tensor input2, Tensor weight, Tensor? bias=None) -> Tensor", bilinear()},
    {"aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", einsum()},
    // recurrent layers
    {"aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)", recurrent(4)},
    {"aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", recurrent(3)},
    {"aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", recurrent(1)},
    {"aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", recurrent(1)},
    {"aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)", recurrent_cell(4)},
    {"aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", recurrent_cell(3)},
    {"aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", recurrent_cell(1)},
    {"aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", recurrent_cell(1)},
    // convolutions and pools
    {"aten::conv1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor", convolution(1)},
    {"aten::conv2d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor", convolution(2)},
    {"aten::conv3d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor", convolution(3)},
    {"aten::conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], str padding=\"valid\", SymInt[1] dilation=[1], SymInt groups=1) -> Tensor", convolution_named_padding(1)},
    {"aten::conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], str padding=\"valid\", SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor", convolution_named_padding(2)},
    {"aten::conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], str padding=\"valid\", SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor", convolution_named_padding(3)},
    {"aten::conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, SymInt[1] dilation=[1]) -> Tensor", convolution_transposed(1)},
    {"aten::conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, SymInt[2] dilation=[1, 1]) -> Tensor", convolution_transposed(2)},
    {"aten::conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, SymInt[3] dilation=[1, 1, 1]) -> Tensor", convolution_transposed(3)},
    {"aten::convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, SymInt groups) -> Tensor", convolution_general()},
    {"aten::avg_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor", average_pool(1)},
    {"aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", average_pool(2)},
    {"aten::avg_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor", average_pool(3)},
    {"aten::max_pool1d(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor", max_pool(1, false)},
    {"aten::max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor", max_pool(2, false)},
    {"aten::max_pool3d(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor", max_pool(3, false)},
    {"aten::max_pool1d_with_indices(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> (Tensor, Tensor)", max_pool(1, true)},
    {"aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", max_pool(2, true)},
    {"aten::max_pool3d_with_indices(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)", max_pool(3, true)},
    {"aten::adaptive_avg_pool1d(Tensor self, int[1] output_size) -> Tensor", adaptive_average_pool(1)},
    {"aten::adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", adaptive_average_pool(2)},
    {"aten::adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", adaptive_average_pool(3)},
    {"aten::adaptive_max_pool1d(Tensor self, int[1] output_size) -> (Tensor, Tensor)", adaptive_max_pool(1)},
    {"aten::adaptive_max_pool2d(Tensor self, int[2] output_size) -> (Tensor, Tensor)", adaptive_max_pool(2)},
    {"aten::adaptive_max_pool3d(Tensor self, int[3] output_size) -> (Tensor, Tensor)", adaptive_max_pool(3)},
    // resampling and moving pixels
    {"aten::upsample_nearest1d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(1)},
    {"aten::upsample_nearest2d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(2)},
    {"aten::upsample_nearest3d.vec(Tensor input, SymInt[]? output_size, float[]? scale_factors) -> Tensor", upsample(3)},
    {"aten::upsample_linear1d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(1)},
    {"aten::upsample_bilinear2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(2)},
    {"aten::upsample_bicubic2d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(2)},
    {"aten::upsample_trilinear3d.vec(Tensor input, SymInt[]? output_size, bool align_corners, float[]? scale_factors) -> Tensor", upsample(3)},
    {"aten::pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", pixel_shuffle(false)},
    {"aten::pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", pixel_shuffle(true)},
    {"aten::channel_shuffle(Tensor self, SymInt groups) -> Tensor", channel_shuffle()},
    {"aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", image_to_columns()},
    {"aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor", columns_to_image()},
    // normalisation and attention
    {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax()},
    {"aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax()},
    {"aten::special_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax()},
    {"aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", softmax()},
    {"aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax()},
    {"aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax()},
    {"aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor", layer_norm(false)},
    {"aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)", layer_norm(true)},
    {"aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", rms_norm()},
    {"aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor", group_norm()},
    {"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)", native_group_norm()},
    {"aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor", batch_norm(false)},
    {"aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm(true)},
    {"aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm(true)},
    {"aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor", instance_norm()},
    {"aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor", attention(), true},
    // indexing, joining, padding
    {"aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", embedding()},
    {"aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather()},
    {"aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select()},
    {"aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index()},
    {"aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim()},
    {"aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter(true)},
    {"aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", scatter(false)},
    {"aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter(true)},
    {"aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", index_add()},
    {"aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor", slice_scatter()},
    {"aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", select_scatter()},
    {"aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", one_hot()},
    {"aten::cat(Tensor[] tensors, int dim=0) -> Tensor", cat()},
    {"aten::stack(Tensor[] tensors, int dim=0) -> Tensor", stack()},
    {"aten::hstack(Tensor[] tensors) -> Tensor", hstack()},
    {"aten::vstack(Tensor[] tensors) -> Tensor", vstack()},
    {"aten::flip(Tensor self, int[] dims) -> Tensor", flip()},
    {"aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll()},
    {"aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad()},
    {"aten::diag(Tensor self, int diagonal=0) -> Tensor", diag()},
    {"aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diag_embed()},
    {"aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat()},
    {"aten::tile(Tensor self, SymInt[] dims) -> Tensor", tile()},
    {"aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor", repeat_interleave()},
    {"aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", topk()},
    {"aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort()},
    {"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort()},
    {"aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", argsort()},
    {"aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", argsort()},
    {"aten::concat(Tensor[] tensors, int dim=0) -> Tensor", cat()},
    {"aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", constant_pad()},
    {"aten::tril(Tensor self, SymInt diagonal=0) -> Tensor", triangle()},
    {"aten::triu(Tensor self, SymInt diagonal=0) -> Tensor", triangle()},
    // making tensors
    {"aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled(false)},
    {"aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled(false)},
    {"aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled(true)},
    {"aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", filled_like()},
    {"aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", filled_like()},
    {"aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", filled_like()},
    {"aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled_new()},
    {"aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled_new()},
    {"aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled_new()},
    {"aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", filled_with()},
    {"aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", eye()},
    {"aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", eye()},
    {"aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange()},
    {"aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange()},
    {"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange()},
    {"aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", linspace()},
    {"aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", scalar_tensor()},
    // losses
    {"aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", kl_div()},
    {"aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor", cross_entropy()},
    {"aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", nll_loss(false)},
    {"aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", nll_loss(true)},
    {"aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity()},
    {"aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor", triplet_margin()},
    {"aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor", hinge_embedding()},
    {"aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", soft_margin()},
    {"aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor", margin_ranking()},
    {"aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor", cosine_embedding()},
    {"aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor", multi_margin()},
    {"aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor", poisson_nll()},
    {"aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool keepdim=False) -> Tensor", pairwise_distance()},
    {"aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor", binary_cross_entropy(false)},
    {"aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor", binary_cross_entropy(true)},
  };
  // clang-format on
  return all;
}

// Sizes that a rule may compute with: everything of a program fits far below, and no product of two overflows. The ends
// of a slice may be "as far as there is".
constexpr int64_t size_limit = int64_t{1} << 31;

expected<void> check_integer(const schema_argument& a, int64_t v) {
  const bool is_slice_end = a.name == "start" || a.name == "end";
  if (is_slice_end || (v >= -size_limit && v <= size_limit)) return {};
  return refuse("{} is {}, out of any useful range", a.name, v);
}

expected<void> check_operand(const schema_argument& a, const tensor_type& t) {
  if (t.shape.size() != t.strides.size())
    return refuse("{} has {} strides for {} dimensions", a.name, t.strides.size(), t.shape.size());
  if (std::any_of(t.shape.begin(), t.shape.end(), [](int64_t s) { return s < 1 || s > size_limit; }))
    return not_covered("{} is {}: tensors without elements are outside our rules", a.name, t.text());
  return {};
}

// What holds for every operator: operands have elements, numbers are of a useful size.
expected<void> check_arguments(const operator_call& call) {
  for (std::size_t i = 0; i < call.arguments.size(); ++i) {
    const auto& a = call.op->schema.arguments[i];
    const auto& v = call.arguments[i];
    if (const auto* t = std::get_if<tensor_argument>(&v)) CUDAL1_CHECK(check_operand(a, t->type));
    if (const auto* many = std::get_if<std::vector<tensor_argument>>(&v))
      for (const auto& t : *many)
        CUDAL1_CHECK(check_operand(a, t.type));
    if (const auto* s = std::get_if<scalar_value>(&v); s && a.type == schema_type::integer)
      CUDAL1_CHECK(check_integer(a, std::get<int64_t>(*s)));
    if (const auto* many = std::get_if<std::vector<int64_t>>(&v))
      for (const int64_t item : *many)
        CUDAL1_CHECK(check_integer(a, item));
  }
  return {};
}

expected<std::vector<operator_result>> typed(const rule& types, const operator_call& call) {
  if (call.arguments.size() != call.op->schema.arguments.size())
    return fail(errc::infrastructure, "{} was bound to {} arguments", call.op->schema.name, call.arguments.size());
  CUDAL1_CHECK(check_arguments(call));
  auto results = types(arguments(call));
  if (results && !call.op->schema.list_result && results->size() != call.op->schema.results.size())
    return fail(errc::infrastructure, "the rule of {} gives {} results", call.op->schema.name, results->size());
  return results;
}

operator_info make_info(const line& l) {
  operator_info info;
  auto schema = parse_schema(l.schema);
  if (!schema) throw std::logic_error(schema.error().message);  // a mistake in this file; a test reads the whole table
  info.schema = std::move(*schema);
  info.relaid = l.relaid;
  info.rule = [types = l.types](const operator_call& call) -> expected<std::vector<operator_result>> {
    try {
      return typed(types, call);
    } catch (const std::exception& e) {  // a rule that asks for what its schema does not have
      return fail(errc::infrastructure, "the rule of {} is broken: {}", call.op->schema.name, e.what());
    }
  };
  return info;
}

}  // namespace

const std::map<std::string, operator_info, std::less<>>& operator_table() {
  static const auto table = [] {
    std::map<std::string, operator_info, std::less<>> made;
    for (const auto& l : lines()) {
      auto info = make_info(l);
      auto name = info.schema.name;
      made.emplace(std::move(name), std::move(info));
    }
    return made;
  }();
  return table;
}

const operator_info* find_operator(std::string_view name) {
  const auto found = operator_table().find(name);
  return found == operator_table().end() ? nullptr : &found->second;
}

std::vector<std::string> operator_schema_texts() {
  std::vector<std::string> texts;
  for (const auto& l : lines())
    texts.emplace_back(l.schema);
  return texts;
}

}  // namespace cudal1
