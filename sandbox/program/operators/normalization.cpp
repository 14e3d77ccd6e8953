// Softmax and normalizations.
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

// Channels-last where the input is; ATen's kernels of some devices make a contiguous result of it.
tensor_type normalized(const tensor_type& input) {
  return laid_out(input.type, input.shape, suggested_format(input));
}

// Checks an optional parameter: the given shape, and the input's type, or float32 where that is a half type.
expected<void> check_parameter(const arguments& a, std::string_view name, const tensor_type& input,
                               const std::vector<int64_t>& shape) {
  const auto* t = a.optional_tensor(name);
  if (!t) return {};
  if (!is_half(input.type) || t->type != dtype::float32) CUDAL1_CHECK(check_same_type(input, *t, "input", name));
  if (t->shape == shape) return {};
  return refuse("{} is {}, but should have shape {}", name, t->text(), shape_text(shape));
}

// The normalized_shape argument, which must be the end of the input's shape.
expected<std::vector<int64_t>> normalized_shape(const arguments& a, const tensor_type& input) {
  const auto shape = a.integers("normalized_shape");
  const bool fits = !shape.empty() && shape.size() <= input.shape.size() &&
                    std::equal(shape.rbegin(), shape.rend(), input.shape.rbegin());
  if (!fits)
    return refuse("normalized_shape is {}, but should be the end of the shape of input, which is {}", shape_text(shape),
                  input.text());
  return shape;
}

rule softmax() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    const bool asks = a.has("dtype") && !a.is_null("dtype");
    const dtype type = asks ? a.type("dtype").value_or(t.type) : t.type;
    if (a.has("half_to_float") && a.flag("half_to_float")) return not_covered("half_to_float is not supported");
    if (!is_floating(type)) return refuse("self is {}: softmax takes floating types only; give a dtype", t.text());
    CUDAL1_CHECK(wrap_dimension(a.integer("dim"), t.dim()));
    return one(contiguous(type, t.shape));
  };
}

// `with_statistics`: the mean and the reciprocal of the deviation are results too.
enum class norm_results { normalized, with_statistics };

rule layer_norm(norm_results wanted) {
  return [=](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_TRY(const auto shape, normalized_shape(a, input));
    CUDAL1_CHECK(check_parameter(a, "weight", input, shape));
    CUDAL1_CHECK(check_parameter(a, "bias", input, shape));
    const auto result = contiguous(input.type, input.shape);
    if (wanted == norm_results::normalized) return one(result);
    auto outer = input.shape;
    std::fill(outer.end() - static_cast<std::ptrdiff_t>(shape.size()), outer.end(), 1);
    const auto statistics = contiguous(input.type, std::move(outer));
    return std::vector<operator_result>{{result, {}}, {statistics, {}}, {statistics, {}}};
  };
}

rule rms_norm() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_contiguous(input, "input"));
    CUDAL1_TRY(const auto shape, normalized_shape(a, input));
    CUDAL1_CHECK(check_parameter(a, "weight", input, shape));
    if (const auto* weight = a.optional_tensor("weight")) CUDAL1_CHECK(check_contiguous(*weight, "weight"));
    return one(contiguous(input.type, input.shape));
  };
}

rule group_norm() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 64, "input"));
    const int64_t groups = a.integer("num_groups"), channels = input.shape[1];
    if (groups < 1 || channels % groups != 0)
      return refuse("num_groups is {}, but should divide the {} channels", groups, channels);
    CUDAL1_CHECK(check_parameter(a, "weight", input, {channels}));
    CUDAL1_CHECK(check_parameter(a, "bias", input, {channels}));
    return one(normalized(input));
  };
}

rule native_group_norm() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 64, "input"));
    CUDAL1_CHECK(check_contiguous(input, "input"));
    const int64_t n = a.integer("N"), channels = a.integer("C"), group = a.integer("group");
    if (n != input.shape[0] || channels != input.shape[1] || a.integer("HxW") != input.numel() / (n * channels))
      return refuse("N, C and HxW do not match the shape of input, which is {}", input.text());
    if (group < 1 || channels % group != 0)
      return refuse("group is {}, but should divide the {} channels", group, channels);
    for (const auto* name : {"weight", "bias"}) {
      CUDAL1_CHECK(check_parameter(a, name, input, {channels}));
      if (const auto* t = a.optional_tensor(name)) CUDAL1_CHECK(check_contiguous(*t, name));
    }
    const auto statistics = contiguous(input.type, {n, group});
    return std::vector<operator_result>{{contiguous(input.type, input.shape), {}}, {statistics, {}}, {statistics, {}}};
  };
}

rule batch_norm(norm_results wanted) {
  return [=](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 64, "input"));
    const bool training = a.has("training") && a.flag("training");
    const int64_t channels = input.shape[1];
    for (const auto* name : {"weight", "bias", "running_mean", "running_var"})
      CUDAL1_CHECK(check_parameter(a, name, input, {channels}));
    for (const auto* name : {"running_mean", "running_var"}) {
      if (training && !a.is_null(name))
        return refuse("training with {} would update it: pass null for the running statistics", name);
      if (!training && a.is_null(name)) return refuse("{} should be given where training is false", name);
    }
    const auto result = normalized(input);
    if (wanted == norm_results::normalized) return one(result);
    const auto statistics = contiguous(input.type, {training ? channels : 0});
    return std::vector<operator_result>{{result, {}}, {statistics, {}}, {statistics, {}}};
  };
}

rule batch_norm_without_statistics() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 64, "input"));
    if (!a.flag("training")) return refuse("training should be true: there are no running statistics");
    const int64_t channels = input.shape[1];
    CUDAL1_CHECK(check_parameter(a, "weight", input, {channels}));
    CUDAL1_CHECK(check_parameter(a, "bias", input, {channels}));
    const auto statistics = contiguous(input.type, {channels});
    return std::vector<operator_result>{{normalized(input), {}}, {statistics, {}}, {statistics, {}}};
  };
}

rule instance_norm() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_rank(input, 3, 64, "input"));
    if (!a.flag("use_input_stats") || !a.is_null("running_mean") || !a.is_null("running_var"))
      return not_covered("only use_input_stats without running statistics is supported");
    CUDAL1_CHECK(check_parameter(a, "weight", input, {input.shape[1]}));
    CUDAL1_CHECK(check_parameter(a, "bias", input, {input.shape[1]}));
    if (a.is_null("weight") != a.is_null("bias")) return not_covered("give both weight and bias, or neither");
    return one(normalized(input));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> normalization_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::normalization, {
      {"aten::softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax(), {.changes = {effect::mixed_smooth, effect_condition::several_in_dim}, .range = bounds{0, 1}, .rows = row_kernel{row_form::softmax, row_extent::dim}}, {"aten::special_softmax"}},
      {"aten::log_softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", softmax(), {.changes = {effect::mixed_smooth, effect_condition::several_in_dim}, .rows = row_kernel{row_form::log_softmax, row_extent::dim}}, {"aten::special_log_softmax(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor"}},
      {"aten::_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax(), {.changes = {effect::mixed_smooth, effect_condition::several_in_dim}, .range = bounds{0, 1}, .rows = row_kernel{row_form::softmax, row_extent::dim}}},
      {"aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> Tensor", softmax(), {.changes = {effect::mixed_smooth, effect_condition::several_in_dim}, .rows = row_kernel{row_form::log_softmax, row_extent::dim}}},
      {"aten::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enable=True) -> Tensor", layer_norm(norm_results::normalized), {.changes = {effect::mixed_smooth, effect_condition::wide_rows, "input"}, .rows = row_kernel{row_form::standardize_rows, row_extent::normalized_shape}}},
      {"aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)", layer_norm(norm_results::with_statistics), {.changes = {effect::mixed_smooth, effect_condition::wide_rows, "input"}, .rows = row_kernel{row_form::standardize_rows, row_extent::normalized_shape}}},
      {"aten::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", rms_norm(), {.changes = {effect::mixed_smooth, effect_condition::wide_rows, "input"}, .rows = row_kernel{row_form::root_mean_square, row_extent::normalized_shape}}},
      {"aten::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, bool cudnn_enabled=True) -> Tensor", group_norm(), {.changes = {effect::mixed_smooth, effect_condition::wide_groups, "input"}, .needs_relayout = true, .rows = row_kernel{row_form::standardize_channels, row_extent::groups}}},
      {"aten::native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)", native_group_norm()},
      {"aten::batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor", batch_norm(norm_results::normalized), {.changes = {effect::onto, effect_condition::given_statistics, "input"}, .needs_relayout = true, .kernel = element_kernel{.form = kernel_form::channel_affine}, .rows = row_kernel{row_form::standardize_channels, row_extent::batch_channels}}},
      {"aten::native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm(norm_results::with_statistics), {.needs_relayout = true}},
      {"aten::_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm_without_statistics(), {.needs_relayout = true}},
      {"aten::_native_batch_norm_legit_no_training(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps) -> (Tensor, Tensor, Tensor)", batch_norm(norm_results::with_statistics), {.needs_relayout = true}},
      {"aten::instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor", instance_norm(), {.needs_relayout = true, .rows = row_kernel{row_form::standardize_channels, row_extent::channels}}},
  });
  // clang-format on
}

}  // namespace cudal1
