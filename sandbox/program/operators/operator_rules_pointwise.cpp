// Pointwise operators: broadcasting, type promotion and the iterator's layout.
#include <algorithm>

#include "sandbox/program/operators/operator_rules.hpp"

namespace cudal1::rules {

namespace {

tensor_type scalar_operand(dtype type) {
  return {type, {}, {}};
}

// The iterator's result of type `result` over operands that it first converts to `common`.
expected<tensor_type> iterate(const std::vector<tensor_type>& operands, dtype common, dtype result) {
  std::vector<int64_t> shape;
  std::vector<tensor_type> seen;
  for (const auto& t : operands) {
    CUDAL1_TRY(shape, broadcast(shape, t.shape));
    seen.push_back(converted(t, common));
  }
  auto strides = iterator_strides(shape, seen);
  return tensor_type{result, std::move(shape), std::move(strides)};
}

outcome iterated(const std::vector<tensor_type>& operands, dtype common, dtype result) {
  CUDAL1_TRY(auto type, iterate(operands, common, result));
  return one(std::move(type));
}

}  // namespace

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

// Floating types: self.abs() == inf, and (self == self) * (self.abs() != inf), each step with a layout of its own; the
// others are at::zeros_like or ones_like.
rule is_infinite(bool negated) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor(0);
    if (!is_floating(t.type)) return one({dtype::bool_, t.shape, preserved_strides(t)});
    CUDAL1_TRY(const auto magnitude, iterate({t}, t.type, t.type));
    CUDAL1_TRY(const auto compared, iterate({magnitude, scalar_operand(t.type)}, t.type, dtype::bool_));
    if (!negated) return one(compared);
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

rule binary(binary_options options) {
  return [=](const arguments& a) -> outcome {
    promotion types;
    for (const std::size_t i : {0, 1})
      a.is_tensor(i) ? types.add(a.tensor(i)) : types.add(a.scalar(i));
    if (!options.bools)
      for (const std::size_t i : {0, 1}) {
        const bool is_bool =
            a.is_tensor(i) ? a.tensor(i).type == dtype::bool_ : std::holds_alternative<bool>(a.scalar(i));
        if (is_bool) return refuse("operand {} is bool, and this operator takes integer and floating types only", i);
      }
    dtype common = types.result();
    if (options.to_float) common = float_of(common);
    CUDAL1_CHECK(check_kind(scalar_operand(common), options.accepted, "the common type of the operands"));
    std::vector<tensor_type> operands;
    for (const std::size_t i : {0, 1}) {
      if (!a.is_tensor(i)) CUDAL1_CHECK(check_scalar_fits(a.scalar(i), common, "the scalar"));
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
      return refuse("rounding_mode is \"{}\", and should be null, \"floor\" or \"trunc\"", mode);
    return binary({.accepted = floats})(a);  // integers: a zero divisor is a fault of the processor
  };
}

rule power() {  // a scalar exponent: no operand of the iterator
  return [](const arguments& a) -> outcome {
    if (a.is_tensor(1)) return binary({.accepted = numbers})(a);
    const auto& t = a.tensor(0);
    const dtype common = promotion().add(t).add(a.scalar(1)).result();
    const auto exponent = a.scalar(1);
    const auto* whole = std::get_if<int64_t>(&exponent);
    if (!is_floating(common) && (!whole || *whole < 0))
      return refuse("an integer tensor to the power {} is no integer", whole ? *whole : 0);
    return iterated({converted(t, common)}, common, common);
  };
}

rule scalar_power() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("exponent");
    const dtype common = promotion().add(t).add(a.scalar("self")).result();
    if (!is_floating(common))
      return not_covered("a scalar to the power of {} is outside our rules: convert one of them to a floating type",
                         t.text());
    return one(contiguous(common, t.shape));
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

rule clamp_tensors(std::string_view low, std::string_view high) {
  return [=](const arguments& a) -> outcome {
    std::vector<tensor_type> operands{a.tensor("self")};
    promotion types;
    types.add(operands.front());
    for (const auto name : {low, high})
      if (!name.empty())
        if (const auto* bound = a.optional_tensor(name)) {
          types.add(*bound);
          operands.push_back(*bound);
        }
    if (operands.size() == 1) return refuse("min and max are both null: one of them should be a tensor");
    const dtype common = types.result();
    CUDAL1_CHECK(check_kind(scalar_operand(common), numbers, "the common type"));
    return iterated(operands, common, common);
  };
}

rule where(bool self_is_scalar, bool other_is_scalar) {
  return [=](const arguments& a) -> outcome {
    const auto& condition = a.tensor("condition");
    CUDAL1_CHECK(check_kind(condition, bools, "condition"));
    promotion types;
    self_is_scalar ? types.add(a.scalar("self")) : types.add(a.tensor("self"));
    other_is_scalar ? types.add(a.scalar("other")) : types.add(a.tensor("other"));
    const dtype common = types.result();
    const auto self = self_is_scalar ? scalar_operand(common) : converted(a.tensor("self"), common);
    const auto other = other_is_scalar ? scalar_operand(common) : converted(a.tensor("other"), common);
    CUDAL1_TRY(auto shape, broadcast(condition.shape, self.shape));
    CUDAL1_TRY(shape, broadcast(shape, other.shape));
    auto strides = iterator_strides(shape, {condition, self, other});
    return one({common, std::move(shape), std::move(strides)});
  };
}

rule lerp(bool weight_is_tensor) {
  return [=](const arguments& a) -> outcome {
    std::vector<tensor_type> operands{a.tensor("self"), a.tensor("end")};
    if (weight_is_tensor) operands.push_back(a.tensor("weight"));
    const dtype type = operands.front().type;
    for (const auto& t : operands) {
      CUDAL1_CHECK(check_kind(t, floats, "an operand"));
      CUDAL1_CHECK(check_same_type(operands.front(), t, "self", "another operand"));
    }
    return iterated(operands, type, type);
  };
}

rule addc(unsigned accepted) {
  return [=](const arguments& a) -> outcome {
    const std::vector<tensor_type> operands{a.tensor("self"), a.tensor("tensor1"), a.tensor("tensor2")};
    const dtype type = operands.front().type;
    for (const auto& t : operands) {
      CUDAL1_CHECK(check_kind(t, accepted, "an operand"));
      CUDAL1_CHECK(check_same_type(operands.front(), t, "self", "another operand"));
    }
    CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), type, "value"));
    return iterated(operands, type, type);
  };
}

rule masked_fill(bool value_is_tensor) {
  return [=](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &mask = a.tensor("mask");
    CUDAL1_CHECK(check_kind(mask, bools, "mask"));
    if (value_is_tensor) {
      CUDAL1_CHECK(check_rank(a.tensor("value"), 0, 0, "value"));
      CUDAL1_CHECK(check_same_type(t, a.tensor("value"), "self", "value"));
    } else {
      CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), t.type, "value"));
    }
    CUDAL1_TRY(auto shape, broadcast(t.shape, mask.shape));
    return one(contiguous(t.type, std::move(shape)));
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
      return refuse("weight has {} elements, and should have 1 or {}", weight.numel(), channels);
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
    if (size % 2 != 0) return refuse("dimension {} of self has size {}, and should be even", dim, size);
    size /= 2;
    return iterated({half, half}, half.type, half.type);
  };
}

rule pointwise_loss() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &target = a.tensor("target");
    CUDAL1_CHECK(check_kind(t, floats, "self"));
    CUDAL1_CHECK(check_same_type(t, target, "self", "target"));
    if (a.has("beta") && a.real("beta") < 0) return refuse("beta should not be negative");
    if (a.has("delta") && !(a.real("delta") > 0)) return refuse("delta should be above 0");
    CUDAL1_TRY(auto each, iterate({t, target}, t.type, t.type));
    const auto how = a.integer("reduction");
    if (how < 0 || how > 2) return refuse("reduction is {}, and should be 0 (none), 1 (mean) or 2 (sum)", how);
    return one(how == 0 ? std::move(each) : contiguous(t.type, {}));
  };
}

}  // namespace cudal1::rules
