// Reductions and scans.
#include <algorithm>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

// The dimensions that a call reduces: all of them where the schema has no `dim`, or it is null or empty.
expected<std::vector<int64_t>> reduced_dimensions(const arguments& a, const tensor_type& t) {
  std::vector<int64_t> dims;
  if (a.has("dim") && !a.is_null("dim")) {
    if (a.is_list("dim")) {
      dims = a.integers("dim");
    } else {
      dims.push_back(a.integer("dim"));
    }
  }
  if (dims.empty())
    for (int64_t d = 0; d < t.dim(); ++d)
      dims.push_back(d);
  return wrap_dimensions(dims, t.dim());
}

std::vector<int64_t> reduced_shape(const tensor_type& t, const std::vector<int64_t>& dims, bool keep) {
  std::vector<int64_t> shape;
  for (int64_t d = 0; d < t.dim(); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!reduced) shape.push_back(t.shape[static_cast<std::size_t>(d)]);
    if (reduced && keep) shape.push_back(1);
  }
  return shape;
}

expected<tensor_type> reduced(const arguments& a, dtype type) {
  const auto& t = a.tensor("self");
  CUDAL1_TRY(const auto dims, reduced_dimensions(a, t));
  return contiguous(type, reduced_shape(t, dims, a.has("keepdim") && a.flag("keepdim")));
}

outcome one_reduced(const arguments& a, dtype type) {
  CUDAL1_TRY(auto result, reduced(a, type));
  return one(std::move(result));
}

// The element type that a `dtype` argument requests; not bool, and not an integer type for a floating operand.
expected<std::optional<dtype>> asked_type(const arguments& a, const tensor_type& t) {
  if (!a.has("dtype") || a.is_null("dtype")) return std::nullopt;
  const auto type = *a.type("dtype");
  if (type == dtype::bool_ || (is_floating(t.type) && !is_floating(type)))
    return not_covered("dtype {} of a reduction of {} is not supported", name_of(type), t.text());
  return type;
}

dtype sum_type(dtype t) {
  return is_floating(t) ? t : dtype::int64;
}

// How the result's type is chosen.
enum class reduced_type { same, sum, floating, int64, truth };

// Reduces all dimensions where the schema has no `dim`, or `dim` is empty or null.
rule reduction(unsigned accepted, reduced_type type) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const auto asked, asked_type(a, t));
    CUDAL1_CHECK(check_kind(asked ? contiguous(*asked, t.shape) : t, accepted, "self"));
    switch (type) {
      case reduced_type::same:
      case reduced_type::floating:
        return one_reduced(a, asked.value_or(t.type));
      case reduced_type::sum:
        return one_reduced(a, asked.value_or(sum_type(t.type)));
      case reduced_type::int64:
        return one_reduced(a, dtype::int64);
      case reduced_type::truth:
        return one_reduced(a, t.type == dtype::uint8 ? dtype::uint8 : dtype::bool_);
    }
    return refuse("no such reduction");
  };
}

rule reduction_pair(unsigned accepted) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, accepted, "self"));
    CUDAL1_TRY(const auto values, reduced(a, t.type));
    return std::vector<operator_result>{{values, {}}, {contiguous(dtype::int64, values.shape), {}}};
  };
}

// ATen's medians read beyond the memory of an expanded operand.
rule of_contiguous(rule types) {
  return [types = std::move(types)](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_contiguous(a.tensor("self"), "self"));
    return types(a);
  };
}

rule median() {
  return of_contiguous(reduction(numbers, reduced_type::same));
}

rule median_in_dim() {
  return of_contiguous(reduction_pair(numbers));
}

rule index_reduction() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    if (a.is_null("dim") && a.flag("keepdim")) return not_covered("keepdim without dim is not supported");
    return one_reduced(a, dtype::int64);
  };
}

rule variance() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    return one_reduced(a, t.type);
  };
}

rule variance_and_mean() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    CUDAL1_TRY(const auto result, reduced(a, t.type));
    return std::vector<operator_result>{{result, {}}, {result, {}}};
  };
}

rule extremes() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    if (a.is_null("dim") && a.flag("keepdim")) return not_covered("keepdim without dim is not supported");
    CUDAL1_TRY(const auto result, reduced(a, t.type));
    return std::vector<operator_result>{{result, {}}, {result, {}}};
  };
}

rule cumulative_extreme() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    CUDAL1_CHECK(wrap_dimension(a.integer("dim"), t.dim()));
    return std::vector<operator_result>{{contiguous(t.type, t.shape), {}}, {contiguous(dtype::int64, t.shape), {}}};
  };
}

rule norm_reduction() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    if (a.has("dtype") && !a.is_null("dtype")) return not_covered("dtype is not supported: convert self first");
    return one_reduced(a, t.type);
  };
}

rule frobenius() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    if (a.integers("dim").size() > 2) return refuse("dim should name one or two dimensions");
    return one_reduced(a, t.type);
  };
}

rule logsumexp() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    if (a.integers("dim").empty()) return not_covered("an empty dim is not supported: name the dimensions");
    return one_reduced(a, t.type);
  };
}

// `type`: reduced_type::same or sum.
rule cumulative(unsigned accepted, reduced_type type) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const auto asked, asked_type(a, t));
    CUDAL1_CHECK(check_kind(t, accepted, "self"));
    CUDAL1_CHECK(wrap_dimension(a.integer("dim"), t.dim()));
    return one(contiguous(asked.value_or(type == reduced_type::sum ? sum_type(t.type) : t.type), t.shape));
  };
}

rule trace() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    CUDAL1_CHECK(check_rank(t, 2, 2, "self"));
    if (is_floating(t.type) && size_of(t.type) < 4) return not_covered("the trace of {} is not supported", t.text());
    return one(contiguous(sum_type(t.type), {}));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> reduction_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::reduction, {
      {"aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum), {.changes = {effect::summed}, .sums = true, .rows = row_kernel{row_form::sum, row_extent::all_dims}}},
      {"aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum), {.changes = {effect::summed}, .is_noop_on_size_one = true, .sums = true, .rows = row_kernel{row_form::sum, row_extent::dim_list}}},
      {"aten::prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
      {"aten::prod.dim_int(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
      {"aten::nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(any, reduced_type::sum)},
      {"aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor", reduction(floats, reduced_type::floating), {.changes = {effect::summed}, .sums = true, .rows = row_kernel{row_form::mean, row_extent::all_dims}}},
      {"aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", reduction(floats, reduced_type::floating), {.changes = {effect::summed}, .is_noop_on_size_one = true, .sums = true, .rows = row_kernel{row_form::mean, row_extent::dim_list}}},
      {"aten::amax(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", reduction(any, reduced_type::same), {.changes = {effect::chosen}, .selects = true, .is_noop_on_size_one = true, .rows = row_kernel{row_form::maximum, row_extent::dim_list}}},
      {"aten::amin(Tensor self, int[1] dim=[], bool keepdim=False) -> Tensor", reduction(any, reduced_type::same), {.changes = {effect::chosen}, .selects = true, .is_noop_on_size_one = true, .rows = row_kernel{row_form::minimum, row_extent::dim_list}}},
      {"aten::max(Tensor self) -> Tensor", reduction(any, reduced_type::same), {.changes = {effect::chosen}, .selects = true, .rows = row_kernel{row_form::maximum, row_extent::all_dims}}},
      {"aten::min(Tensor self) -> Tensor", reduction(any, reduced_type::same), {.changes = {effect::chosen}, .selects = true, .rows = row_kernel{row_form::minimum, row_extent::all_dims}}},
      {"aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", reduction_pair(any), {.changes = {effect::chosen}, .rows = row_kernel{row_form::maximum_value, row_extent::dim}}},
      {"aten::min.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", reduction_pair(any), {.changes = {effect::chosen}, .rows = row_kernel{row_form::minimum_value, row_extent::dim}}},
      {"aten::median(Tensor self) -> Tensor", median(), {.selects = true}},
      {"aten::median.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", median_in_dim()},
      {"aten::nanmedian(Tensor self) -> Tensor", median(), {.selects = true}},
      {"aten::nanmedian.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)", median_in_dim()},
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
      {"aten::var(Tensor self, bool unbiased=True) -> Tensor", variance(), {.changes = {effect::reduced, effect_condition::several}}},
      {"aten::var.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", variance(), {.changes = {effect::reduced, effect_condition::several}, .rows = row_kernel{row_form::variance, row_extent::dim_list}}},
      {"aten::var.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", variance(), {.changes = {effect::reduced, effect_condition::several}, .rows = row_kernel{row_form::variance, row_extent::dim_list}}},
      {"aten::std(Tensor self, bool unbiased=True) -> Tensor", variance(), {.changes = {effect::reduced, effect_condition::several}}},
      {"aten::std.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> Tensor", variance(), {.changes = {effect::reduced, effect_condition::several}, .rows = row_kernel{row_form::deviation, row_extent::dim_list}}},
      {"aten::std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> Tensor", variance(), {.changes = {effect::reduced, effect_condition::several}, .rows = row_kernel{row_form::deviation, row_extent::dim_list}}},
      {"aten::var_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
      {"aten::var_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", variance_and_mean()},
      {"aten::var_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
      {"aten::std_mean(Tensor self, bool unbiased=True) -> (Tensor, Tensor)", variance_and_mean()},
      {"aten::std_mean.dim(Tensor self, int[1]? dim, bool unbiased=True, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
      {"aten::std_mean.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None, bool keepdim=False) -> (Tensor, Tensor)", variance_and_mean()},
      {"aten::norm.Scalar(Tensor self, Scalar p=2) -> Tensor", norm_reduction(), {.changes = {effect::reduced, effect_condition::several}}},
      {"aten::norm.ScalarOpt_dim(Tensor self, Scalar? p, int[1] dim, bool keepdim=False) -> Tensor", norm_reduction(), {.changes = {effect::reduced, effect_condition::several}}},
      {"aten::linalg_vector_norm(Tensor self, Scalar ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", norm_reduction(), {.changes = {effect::reduced, effect_condition::several}, .rows = row_kernel{row_form::vector_norm, row_extent::dim_list}}},
      {"aten::frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", frobenius(), {.changes = {effect::reduced, effect_condition::several}}},
      {"aten::logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", logsumexp(), {.changes = {effect::reduced, effect_condition::several}, .is_noop_on_size_one = true, .rows = row_kernel{row_form::log_sum_exp, row_extent::dim_list}}},
      {"aten::trace(Tensor self) -> Tensor", trace(), {.reads = reading::diagonal}},
  });
  // clang-format on
}

std::vector<operator_record> scan_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::scan, {
      {"aten::cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative(any, reduced_type::sum), {.changes = {effect::mixed_linear}, .rows = row_kernel{row_form::running_sum, row_extent::dim}}},
      {"aten::cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", cumulative(any, reduced_type::sum)},
      {"aten::logcumsumexp(Tensor self, int dim) -> Tensor", cumulative(floats, reduced_type::same)},
      {"aten::cummax(Tensor self, int dim) -> (Tensor values, Tensor indices)", cumulative_extreme()},
      {"aten::cummin(Tensor self, int dim) -> (Tensor values, Tensor indices)", cumulative_extreme()},
  });
  // clang-format on
}

}  // namespace cudal1
