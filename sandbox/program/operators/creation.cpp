// Operators that create tensors from numbers.
#include <algorithm>
#include <cmath>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

dtype type_of(const scalar_value& s) {
  return std::holds_alternative<bool>(s)      ? dtype::bool_
         : std::holds_alternative<int64_t>(s) ? dtype::int64
                                              : dtype::float32;
}

rule filled() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    auto shape = a.integers("size");
    CUDAL1_CHECK(check_sizes(shape));
    const bool has_value = a.has("fill_value");
    dtype type = has_value ? type_of(a.scalar("fill_value")) : dtype::float32;
    type = a.type("dtype").value_or(type);
    if (has_value) CUDAL1_CHECK(check_scalar_fits(a.scalar("fill_value"), type, "fill_value"));
    return one(contiguous(type, std::move(shape)));
  };
}

rule filled_like() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_placement(a));
    if (!a.is_null("memory_format") && a.text("memory_format") != "preserve_format")
      return not_covered("memory_format is not supported here: leave it out");
    const dtype type = a.type("dtype").value_or(t.type);
    if (a.has("fill_value")) CUDAL1_CHECK(check_scalar_fits(a.scalar("fill_value"), type, "fill_value"));
    return one({type, t.shape, preserved_strides(t)});
  };
}

rule filled_new() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    auto shape = a.integers("size");
    CUDAL1_CHECK(check_sizes(shape));
    const dtype type = a.type("dtype").value_or(a.tensor("self").type);
    if (a.has("fill_value")) CUDAL1_CHECK(check_scalar_fits(a.scalar("fill_value"), type, "fill_value"));
    return one(contiguous(type, std::move(shape)));
  };
}

rule filled_with() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), t.type, "value"));
    return one({t.type, t.shape, preserved_strides(t)});
  };
}

rule linspace() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const int64_t steps = a.integer("steps");
    if (steps < 1) return refuse("steps is {}, but should be positive", steps);
    const dtype type = a.type("dtype").value_or(dtype::float32);
    if (!is_floating(type)) return not_covered("dtype {} is not supported here: use a floating type", name_of(type));
    return one(contiguous(type, {steps}));
  };
}

rule eye() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const int64_t n = a.integer("n"), m = a.has("m") ? a.integer("m") : n;
    CUDAL1_CHECK(check_sizes({n, m}));
    return one(contiguous(a.type("dtype").value_or(dtype::float32), {n, m}));
  };
}

rule arange() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const auto number = [&](std::string_view name, int64_t otherwise) {
      return a.has(name) ? a.scalar(name) : scalar_value(otherwise);
    };
    const scalar_value ends[] = {number("start", 0), number("end", 0), number("step", 1)};
    if (!std::all_of(std::begin(ends), std::end(ends), [](const auto& s) { return s.index() == 1; }))
      return not_covered("only integer bounds and steps are supported: convert the result");
    const int64_t start = std::get<int64_t>(ends[0]), end = std::get<int64_t>(ends[1]),
                  step = std::get<int64_t>(ends[2]);
    constexpr int64_t limit = int64_t{1} << 31;
    if (std::abs(saturating_add(start, 1)) > limit || std::abs(saturating_add(end, 1)) > limit)
      return refuse("the range {} to {} is too large", start, end);
    if (step < 1 || start >= end)
      return refuse("the range {} to {} by {} should go up and not be empty", start, end, step);
    const dtype type = a.type("dtype").value_or(dtype::int64);
    for (const auto bound : {start, end})
      CUDAL1_CHECK(check_scalar_fits(scalar_value(bound), type, "a bound"));
    if (type == dtype::bool_) return refuse("dtype should be a type of numbers");
    return one(contiguous(type, {(end - start - 1) / step + 1}));
  };
}

rule scalar_tensor() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const dtype type = a.type("dtype").value_or(dtype::float32);
    CUDAL1_CHECK(check_scalar_fits(a.scalar("s"), type, "s"));
    return one(contiguous(type, {}));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> creation_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::creation, {
      {"aten::zeros(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled()},
      {"aten::ones(SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled()},
      {"aten::full(SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled()},
      {"aten::zeros_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", filled_like(), {.reads = reading::shape_only, .outright = "aten::zeros"}},
      {"aten::ones_like(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", filled_like(), {.reads = reading::shape_only, .outright = "aten::ones"}},
      {"aten::full_like(Tensor self, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, MemoryFormat? memory_format=None) -> Tensor", filled_like(), {.reads = reading::shape_only, .outright = "aten::full"}},
      {"aten::new_zeros(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled_new(), {.outright = "aten::zeros"}},
      {"aten::new_ones(Tensor self, SymInt[] size, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled_new(), {.outright = "aten::ones"}},
      {"aten::new_full(Tensor self, SymInt[] size, Scalar fill_value, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", filled_new(), {.outright = "aten::full"}},
      {"aten::fill.Scalar(Tensor self, Scalar value) -> Tensor", filled_with()},
      {"aten::eye(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", eye()},
      {"aten::eye.m(SymInt n, SymInt m, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", eye()},
      {"aten::arange(Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange()},
      {"aten::arange.start(Scalar start, Scalar end, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange()},
      {"aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", arange()},
      {"aten::linspace(Scalar start, Scalar end, int steps, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", linspace()},
      {"aten::scalar_tensor(Scalar s, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor", scalar_tensor()},
  });
  // clang-format on
}

}  // namespace cudal1
