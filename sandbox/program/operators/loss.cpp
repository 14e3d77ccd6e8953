// Losses that are more than a pointwise operator and a reduction. Class indices are checked by ATen as they are read.
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr int transcendental = 12;  // the cost, in additions

}  // namespace

namespace rules {

namespace {

enum class reduction_kind { none = 0, mean = 1, sum = 2 };

expected<reduction_kind> read_reduction(const arguments& a) {
  const auto how = a.integer("reduction");
  if (how < 0 || how > 2) return refuse("reduction is {}, but should be 0 (none), 1 (mean) or 2 (sum)", how);
  return static_cast<reduction_kind>(how);
}

expected<void> check_reduced(const arguments& a) {
  CUDAL1_TRY(const auto how, read_reduction(a));
  if (how != reduction_kind::none) return {};
  return not_covered("reduction 0 (none) is not supported for this loss");
}

expected<void> check_alike(const tensor_type& a, const tensor_type& b, std::string_view name_a,
                           std::string_view name_b) {
  CUDAL1_CHECK(check_kind(a, floats, name_a));
  CUDAL1_CHECK(check_same_type(a, b, name_a, name_b));
  if (a.shape == b.shape) return {};
  return refuse("{} is {} and {} is {}: they should have the same shape", name_a, a.text(), name_b, b.text());
}

// Whether reduction 0 (none), which leaves a loss of each element, is supported.
enum class unreduced { supported, not_supported };

// Losses over tensors of the same shape, reduced to a scalar.
outcome alike(const arguments& a, std::initializer_list<std::string_view> names, unreduced none) {
  const auto& first = a.tensor(*names.begin());
  bool plain = true;
  for (const auto name : names) {
    CUDAL1_CHECK(check_alike(first, a.tensor(name), *names.begin(), name));
    plain = plain && is_plain(a.tensor(name));
  }
  CUDAL1_TRY(const auto how, read_reduction(a));
  if (how != reduction_kind::none) return one(contiguous(first.type, {}));
  if (none == unreduced::not_supported) return not_covered("reduction 0 (none) is not supported for this loss");
  if (!plain) return not_covered("reduction 0 (none) is supported for contiguous operands only");
  return one(contiguous(first.type, first.shape));
}

// input [N, C, ...], of up to `most_dimensions`, and class indices [N, ...].
outcome classified(const arguments& a, int64_t most_dimensions) {
  const auto &input = a.tensor("self"), &target = a.tensor("target");
  CUDAL1_CHECK(check_kind(input, floats, "self"));
  CUDAL1_CHECK(check_rank(input, 2, most_dimensions, "self"));
  if (target.type != dtype::int64) return refuse("target is {}, but should be int64", target.text());
  auto wanted = input.shape;
  wanted.erase(wanted.begin() + 1);
  if (target.shape != wanted)
    return refuse("target is {}, but should have shape {}", target.text(), shape_text(wanted));
  if (const auto* weight = a.optional_tensor("weight")) {
    CUDAL1_CHECK(check_same_type(input, *weight, "self", "weight"));
    if (weight->shape != std::vector<int64_t>{input.shape[1]})
      return refuse("weight is {}, but should have shape [{}]", weight->text(), input.shape[1]);
  }
  CUDAL1_TRY(const auto how, read_reduction(a));
  if (how != reduction_kind::none) return one(contiguous(input.type, {}));
  if (input.dim() != 2) return not_covered("reduction 0 (none) is supported for [N, C] only");
  return one(contiguous(input.type, std::move(wanted)));
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
    if (how < 0 || how > 2) return refuse("reduction is {}, but should be 0 (none), 1 (mean) or 2 (sum)", how);
    return one(how == 0 ? std::move(each) : contiguous(t.type, {}));
  };
}

rule kl_div() {
  return [](const arguments& a) { return alike(a, {"self", "target"}, unreduced::supported); };
}

rule cross_entropy() {
  return [](const arguments& a) -> outcome {
    const auto &input = a.tensor("self"), &target = a.tensor("target");
    const double smoothing = a.real("label_smoothing");
    if (!(smoothing >= 0 && smoothing <= 1))
      return refuse("label_smoothing is {}, but should lie in 0 to 1", smoothing);
    if (is_floating(target.type)) {  // probabilities of the classes
      CUDAL1_CHECK(check_rank(input, 2, 64, "self"));
      if (!a.is_null("weight")) return not_covered("weight with probabilities is not supported");
      return alike(a, {"self", "target"}, unreduced::not_supported);
    }
    if (smoothing != 0) CUDAL1_CHECK(check_reduced(a));
    return classified(a, 64);
  };
}

rule nll_loss(int64_t most_dimensions) {
  return [=](const arguments& a) { return classified(a, most_dimensions); };
}

rule cosine_similarity() {
  return [](const arguments& a) -> outcome {
    const auto& x = a.tensor("x1");
    CUDAL1_CHECK(check_alike(x, a.tensor("x2"), "x1", "x2"));
    CUDAL1_CHECK(check_rank(x, 1, 64, "x1"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), x.dim()));
    auto shape = x.shape;
    shape.erase(shape.begin() + dim);
    return one(contiguous(x.type, std::move(shape)));
  };
}

// One value for each row of the operand, or their mean or sum.
outcome of_rows(const arguments& a, const tensor_type& operand) {
  CUDAL1_TRY(const auto how, read_reduction(a));
  if (how != reduction_kind::none) return one(contiguous(operand.type, {}));
  return one(contiguous(operand.type, {operand.shape.begin(), operand.shape.end() - 1}));
}

rule triplet_margin() {
  return [](const arguments& a) -> outcome {
    const auto& anchor = a.tensor("anchor");
    CUDAL1_CHECK(check_rank(anchor, 1, 64, "anchor"));
    for (const auto name : {"positive", "negative"})
      CUDAL1_CHECK(check_alike(anchor, a.tensor(name), "anchor", name));
    return of_rows(a, anchor);
  };
}

rule hinge_embedding() {
  return [](const arguments& a) { return alike(a, {"self", "target"}, unreduced::supported); };
}

rule soft_margin() {
  return [](const arguments& a) { return alike(a, {"self", "target"}, unreduced::supported); };
}

rule margin_ranking() {
  return [](const arguments& a) { return alike(a, {"input1", "input2", "target"}, unreduced::supported); };
}

rule poisson_nll() {
  return [](const arguments& a) { return alike(a, {"input", "target"}, unreduced::supported); };
}

rule cosine_embedding() {
  return [](const arguments& a) -> outcome {
    const auto &x = a.tensor("input1"), &target = a.tensor("target");
    CUDAL1_CHECK(check_alike(x, a.tensor("input2"), "input1", "input2"));
    CUDAL1_CHECK(check_rank(x, 2, 2, "input1"));
    if (target.shape != std::vector<int64_t>{x.shape[0]})
      return refuse("target is {}, but should have shape [{}]", target.text(), x.shape[0]);
    if (target.type != x.type && target.type != dtype::int64)
      return refuse("target is {}, but should be int64 or of the input's type", target.text());
    return of_rows(a, x);
  };
}

rule multi_margin() {
  return [](const arguments& a) -> outcome {
    if (!a.is_null("weight")) return not_covered("weight is not supported for this loss");
    const auto p = a.scalar("p"), margin = a.scalar("margin");
    if (p != scalar_value(int64_t{1}) && p != scalar_value(int64_t{2})) return refuse("p should be 1 or 2");
    if (std::holds_alternative<bool>(margin)) return refuse("margin should be a number");
    return classified(a, 2);
  };
}

rule pairwise_distance() {
  return [](const arguments& a) -> outcome {
    const auto& x = a.tensor("x1");
    CUDAL1_CHECK(check_alike(x, a.tensor("x2"), "x1", "x2"));
    CUDAL1_CHECK(check_rank(x, 1, 64, "x1"));
    auto shape = x.shape;
    shape.back() = 1;
    if (!a.flag("keepdim")) shape.pop_back();
    return one(contiguous(x.type, std::move(shape)));
  };
}

rule binary_cross_entropy() {
  return [](const arguments& a) -> outcome {
    if (!a.is_null("weight") || (a.has("pos_weight") && !a.is_null("pos_weight")))
      return not_covered("weights are not supported for this loss");
    return alike(a, {"self", "target"}, unreduced::supported);
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> loss_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::loss, {
      {"aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", pointwise_loss(), {.changes = {effect::reduced}, .kernel = element_kernel{"($0 - $1) * ($0 - $1)", 3, kernel_form::expression, "self target"}, .rows = row_kernel{row_form::loss}}},
      {"aten::l1_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", pointwise_loss(), {.kernel = element_kernel{"fabsf($0 - $1)", 2, kernel_form::expression, "self target"}, .rows = row_kernel{row_form::loss}}},
      {"aten::smooth_l1_loss(Tensor self, Tensor target, int reduction=1, float beta=1.) -> Tensor", pointwise_loss(), {.kernel = element_kernel{"fabsf($0 - $1) < $2 ? 0.5f * ($0 - $1) * ($0 - $1) / $2 : fabsf($0 - $1) - 0.5f * $2", 10, kernel_form::expression, "self target beta"}, .rows = row_kernel{row_form::loss}}},
      {"aten::huber_loss(Tensor self, Tensor target, int reduction=1, float delta=1.) -> Tensor", pointwise_loss(), {.kernel = element_kernel{"fabsf($0 - $1) < $2 ? 0.5f * ($0 - $1) * ($0 - $1) : $2 * (fabsf($0 - $1) - 0.5f * $2)", 8, kernel_form::expression, "self target delta"}, .rows = row_kernel{row_form::loss}}},
      {"aten::kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor", kl_div(), {.partial = true, .kernel = element_kernel{"($1 == 0.0f ? 0.0f : $1 * logf($1)) - $1 * $0", transcendental, kernel_form::divergence, "self target"}, .rows = row_kernel{row_form::loss}}},
      {"aten::cross_entropy_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.) -> Tensor", cross_entropy()},
      {"aten::nll_loss(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", nll_loss(2), {.reads = reading::one_per_row}},
      {"aten::nll_loss_nd(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor", nll_loss(64), {.reads = reading::one_per_row}},
      {"aten::cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", cosine_similarity(), {.rows = row_kernel{row_form::cosine_similarity, row_extent::dim}}},
      {"aten::triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1., float p=2., float eps=9.9999999999999995e-07, bool swap=False, int reduction=1) -> Tensor", triplet_margin(), {.rows = row_kernel{row_form::triplet_margin, row_extent::last_dim}, .averages_rows = true}},
      {"aten::hinge_embedding_loss(Tensor self, Tensor target, float margin=1., int reduction=1) -> Tensor", hinge_embedding(), {.kernel = element_kernel{"($1 == 1.0f ? 0.0f : $2 - $0 < 0.0f ? 0.0f : $2 - $0) + ($1 == -1.0f ? 0.0f : $0)", 6, kernel_form::expression, "self target margin"}, .rows = row_kernel{row_form::loss}}},
      {"aten::soft_margin_loss(Tensor self, Tensor target, int reduction=1) -> Tensor", soft_margin(), {.kernel = element_kernel{"log1pf(expf(- $0 * $1))", 2 * transcendental, kernel_form::expression, "self target"}, .rows = row_kernel{row_form::loss}}},
      {"aten::margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor", margin_ranking(), {.kernel = element_kernel{"$3 - $2 * ($0 - $1) < 0.0f ? 0.0f : $3 - $2 * ($0 - $1)", 5, kernel_form::expression, "input1 input2 target margin"}, .rows = row_kernel{row_form::loss}}},
      {"aten::cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0., int reduction=1) -> Tensor", cosine_embedding(), {.rows = row_kernel{row_form::cosine_embedding, row_extent::last_dim}, .averages_rows = true}},
      {"aten::multi_margin_loss(Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, int reduction=1) -> Tensor", multi_margin()},
      {"aten::poisson_nll_loss(Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction) -> Tensor", poisson_nll(), {.kernel = element_kernel{"($2 != 0.0f ? expf($0) - $1 * $0 : $0 - $1 * logf($0 + $4)) + ($3 != 0.0f && $1 > 1.0f ? $1 * logf($1) - $1 + 0.5f * logf(6.28318530717958648f * $1) : 0.0f)", 3 * transcendental, kernel_form::expression, "input target log_input full eps"}, .rows = row_kernel{row_form::loss}}},
      {"aten::pairwise_distance(Tensor x1, Tensor x2, float p=2., float eps=9.9999999999999995e-07, bool keepdim=False) -> Tensor", pairwise_distance(), {.rows = row_kernel{row_form::pairwise_distance, row_extent::last_dim}}},
      {"aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor", binary_cross_entropy(), {.partial = true, .kernel = element_kernel{"($1 - 1.0f) * (log1pf(- $0) < -100.0f ? -100.0f : log1pf(- $0)) - $1 * (logf($0) < -100.0f ? -100.0f : logf($0))", 2 * transcendental, kernel_form::expression, "self target"}, .rows = row_kernel{row_form::loss}}},
      {"aten::binary_cross_entropy_with_logits(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor", binary_cross_entropy(), {.partial = true, .kernel = element_kernel{"(1.0f - $1) * $0 - ($0 < 0.0f ? $0 : 0.0f) + log1pf(expf(- fabsf($0)))", 2 * transcendental, kernel_form::expression, "self target"}, .rows = row_kernel{row_form::loss}}},
  });
  // clang-format on
}

}  // namespace cudal1
