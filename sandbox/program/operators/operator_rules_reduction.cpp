// Reductions and scans. ATen lays their results out contiguously whatever the operand's strides.
#include <algorithm>

#include "sandbox/program/operators/operator_rules.hpp"

namespace cudal1::rules {

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

// The element type that a `dtype` argument asks for; it must not lose what the operand has.
expected<std::optional<dtype>> asked_type(const arguments& a, const tensor_type& t) {
  if (!a.has("dtype") || a.is_null("dtype")) return std::nullopt;
  const auto type = *a.type("dtype");
  if (type == dtype::bool_ || (is_floating(t.type) && !is_floating(type)))
    return not_covered("dtype {} of a reduction of {} is outside our rules", name_of(type), t.text());
  return type;
}

dtype sum_type(dtype t) {
  return is_floating(t) ? t : dtype::int64;
}

}  // namespace

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

rule index_reduction() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    if (a.is_null("dim") && a.flag("keepdim")) return not_covered("keepdim without dim is outside our rules");
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
    if (a.is_null("dim") && a.flag("keepdim")) return not_covered("keepdim without dim is outside our rules");
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
    if (a.has("dtype") && !a.is_null("dtype")) return not_covered("dtype is outside our rules: convert self first");
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
    if (a.integers("dim").empty()) return not_covered("an empty dim is outside our rules: name the dimensions");
    return one_reduced(a, t.type);
  };
}

rule cumulative(unsigned accepted, bool sums) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const auto asked, asked_type(a, t));
    CUDAL1_CHECK(check_kind(t, accepted, "self"));
    CUDAL1_CHECK(wrap_dimension(a.integer("dim"), t.dim()));
    return one(contiguous(asked.value_or(sums ? sum_type(t.type) : t.type), t.shape));
  };
}

rule trace() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    CUDAL1_CHECK(check_rank(t, 2, 2, "self"));
    if (is_floating(t.type) && size_of(t.type) < 4)
      return not_covered("the trace of {} is outside our rules", t.text());
    return one(contiguous(sum_type(t.type), {}));
  };
}

}  // namespace cudal1::rules
