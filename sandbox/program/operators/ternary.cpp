// Pointwise operators of three tensors, each of which may broadcast.
#include <algorithm>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

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

bool is_tensor(const arguments& a, std::string_view name) {
  return a.is_tensor(a.index_of(name));
}

rule where() {
  return [](const arguments& a) -> outcome {
    const auto& condition = a.tensor("condition");
    CUDAL1_CHECK(check_kind(condition, bools, "condition"));
    promotion types;
    for (const auto* name : {"self", "other"})
      is_tensor(a, name) ? types.add(a.tensor(name)) : types.add(a.scalar(name));
    const dtype common = types.result();
    const auto operand = [&](std::string_view name) {
      return is_tensor(a, name) ? converted(a.tensor(name), common) : scalar_operand(common);
    };
    const auto self = operand("self"), other = operand("other");
    CUDAL1_TRY(auto shape, broadcast(condition.shape, self.shape));
    CUDAL1_TRY(shape, broadcast(shape, other.shape));
    auto strides = iterator_strides(shape, {condition, self, other});
    return one({common, std::move(shape), std::move(strides)});
  };
}

rule lerp() {
  return [](const arguments& a) -> outcome {
    std::vector<tensor_type> operands{a.tensor("self"), a.tensor("end")};
    if (is_tensor(a, "weight")) operands.push_back(a.tensor("weight"));
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

rule masked_fill() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &mask = a.tensor("mask");
    CUDAL1_CHECK(check_kind(mask, bools, "mask"));
    if (is_tensor(a, "value")) {
      CUDAL1_CHECK(check_rank(a.tensor("value"), 0, 0, "value"));
      CUDAL1_CHECK(check_same_type(t, a.tensor("value"), "self", "value"));
    } else {
      CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), t.type, "value"));
    }
    CUDAL1_TRY(auto shape, broadcast(t.shape, mask.shape));
    return one(contiguous(t.type, std::move(shape)));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> ternary_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::pointwise, {
      {"aten::clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor", clamp_tensors("min", "max"), {.kernel = element_kernel{.form = kernel_form::clamp}}},
      {"aten::clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", clamp_tensors("min", "")},
      {"aten::clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", clamp_tensors("", "max")},
      {"aten::where.self(Tensor condition, Tensor self, Tensor other) -> Tensor", where(), {.kernel = element_kernel{.form = kernel_form::select}}},
      {"aten::where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor", where(), {.kernel = element_kernel{.form = kernel_form::select}}},
      {"aten::where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor", where(), {.kernel = element_kernel{.form = kernel_form::select}}},
      {"aten::where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor", where()},
      {"aten::lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor", lerp(), {.kernel = element_kernel{"fabsf($2) < 0.5f ? $0 + $2 * ($1 - $0) : $1 - ($1 - $0) * (1.0f - $2)", 4}}},
      {"aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor", lerp()},
      {"aten::addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addc(numbers), {.kernel = element_kernel{"$0 + $1 * $2 * $3", 3, kernel_form::expression, "self value tensor1 tensor2"}}},
      {"aten::addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor", addc(floats), {.poles = true, .kernel = element_kernel{"$0 + $1 * $2 / $3", 6, kernel_form::expression, "self value tensor1 tensor2"}}},
      {"aten::masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor", masked_fill(), {.kernel = element_kernel{.form = kernel_form::masked_fill}}},
      {"aten::masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor", masked_fill()},
  });
  // clang-format on
}

}  // namespace cudal1
