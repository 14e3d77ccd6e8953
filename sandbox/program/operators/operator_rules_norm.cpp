// Softmax, normalisations and attention.
#include "sandbox/program/operators/operator_rules.hpp"

namespace cudal1::rules {

namespace {

expected<void> check_full_precision(const tensor_type& t, std::string_view name) {
  if (t.type == dtype::float32 || t.type == dtype::float64) return {};
  return not_covered("{} is {}, and our rules cover float32 and float64 here", name, t.text());
}

expected<void> check_plain_layout(const tensor_type& t, std::string_view name) {
  if (suggested_format(t) == format::contiguous) return {};
  return not_covered("{} is {}: channels-last operands are outside our rules, make it contiguous first", name,
                     t.text());
}

expected<void> check_contiguous(const tensor_type& t, std::string_view name) {
  if (is_plain(t)) return {};
  return not_covered("{} is {}, and our rules want it contiguous here", name, t.text());
}

// An optional parameter of that shape and of the input's type.
expected<void> check_parameter(const arguments& a, std::string_view name, const tensor_type& input,
                               const std::vector<int64_t>& shape) {
  const auto* t = a.optional_tensor(name);
  if (!t) return {};
  CUDAL1_CHECK(check_same_type(input, *t, "input", name));
  if (t->shape == shape) return {};
  return refuse("{} is {}, and should have shape {}", name, t->text(), shape_text(shape));
}

// The normalized_shape argument, which must be the end of the input's shape.
expected<std::vector<int64_t>> normalized_shape(const arguments& a, const tensor_type& input) {
  const auto shape = a.integers("normalized_shape");
  const bool fits = !shape.empty() && shape.size() <= input.shape.size() &&
                    std::equal(shape.rbegin(), shape.rend(), input.shape.rbegin());
  if (!fits)
    return refuse("normalized_shape is {}, and should be the end of the shape of input, which is {}", shape_text(shape),
                  input.text());
  return shape;
}

}  // namespace

rule softmax() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    const bool asks = a.has("dtype") && !a.is_null("dtype");
    const dtype type = asks ? a.type("dtype").value_or(t.type) : t.type;
    if (a.has("half_to_float") && a.flag("half_to_float")) return not_covered("half_to_float is outside our rules");
    if (!is_floating(type)) return refuse("self is {}: softmax takes floating types, give a dtype", t.text());
    CUDAL1_CHECK(wrap_dimension(a.integer("dim"), t.dim()));
    return one(contiguous(type, t.shape));
  };
}

rule layer_norm(bool native) {
  return [=](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_full_precision(input, "input"));
    CUDAL1_TRY(const auto shape, normalized_shape(a, input));
    CUDAL1_CHECK(check_parameter(a, "weight", input, shape));
    CUDAL1_CHECK(check_parameter(a, "bias", input, shape));
    const auto result = contiguous(input.type, input.shape);
    if (!native) return one(result);
    auto outer = input.shape;
    std::fill(outer.end() - static_cast<std::ptrdiff_t>(shape.size()), outer.end(), 1);
    const auto statistics = contiguous(input.type, std::move(outer));
    return std::vector<operator_result>{{result, {}}, {statistics, {}}, {statistics, {}}};
  };
}

rule rms_norm() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_full_precision(input, "input"));
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
    CUDAL1_CHECK(check_full_precision(input, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 64, "input"));
    CUDAL1_CHECK(check_plain_layout(input, "input"));
    const int64_t groups = a.integer("num_groups"), channels = input.shape[1];
    if (groups < 1 || channels % groups != 0)
      return refuse("num_groups is {}, and should divide the {} channels", groups, channels);
    CUDAL1_CHECK(check_parameter(a, "weight", input, {channels}));
    CUDAL1_CHECK(check_parameter(a, "bias", input, {channels}));
    return one(contiguous(input.type, input.shape));
  };
}

rule native_group_norm() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_full_precision(input, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 64, "input"));
    CUDAL1_CHECK(check_contiguous(input, "input"));
    const int64_t n = a.integer("N"), channels = a.integer("C"), group = a.integer("group");
    if (n != input.shape[0] || channels != input.shape[1] || a.integer("HxW") != input.numel() / (n * channels))
      return refuse("N, C and HxW do not say the shape of input, which is {}", input.text());
    if (group < 1 || channels % group != 0)
      return refuse("group is {}, and should divide the {} channels", group, channels);
    for (const auto* name : {"weight", "bias"}) {
      CUDAL1_CHECK(check_parameter(a, name, input, {channels}));
      if (const auto* t = a.optional_tensor(name)) CUDAL1_CHECK(check_contiguous(*t, name));
    }
    const auto statistics = contiguous(input.type, {n, group});
    return std::vector<operator_result>{{contiguous(input.type, input.shape), {}}, {statistics, {}}, {statistics, {}}};
  };
}

rule batch_norm(bool native) {
  return [=](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_full_precision(input, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 64, "input"));
    CUDAL1_CHECK(check_plain_layout(input, "input"));
    const bool training = a.has("training") && a.flag("training");
    const int64_t channels = input.shape[1];
    for (const auto* name : {"weight", "bias", "running_mean", "running_var"})
      CUDAL1_CHECK(check_parameter(a, name, input, {channels}));
    for (const auto* name : {"running_mean", "running_var"}) {
      if (training && !a.is_null(name))
        return refuse("training with {} would update it: pass null for the running statistics", name);
      if (!training && a.is_null(name)) return refuse("{} should be given where training is false", name);
    }
    const auto result = contiguous(input.type, input.shape);
    if (!native) return one(result);
    const auto statistics = contiguous(input.type, {training ? channels : 0});
    return std::vector<operator_result>{{result, {}}, {statistics, {}}, {statistics, {}}};
  };
}

rule instance_norm() {
  return [](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_full_precision(input, "input"));
    CUDAL1_CHECK(check_rank(input, 3, 64, "input"));
    CUDAL1_CHECK(check_plain_layout(input, "input"));
    if (!a.flag("use_input_stats") || !a.is_null("running_mean") || !a.is_null("running_var"))
      return not_covered("only use_input_stats without running statistics is inside our rules");
    CUDAL1_CHECK(check_parameter(a, "weight", input, {input.shape[1]}));
    CUDAL1_CHECK(check_parameter(a, "bias", input, {input.shape[1]}));
    if (a.is_null("weight") != a.is_null("bias")) return not_covered("give both weight and bias, or neither");
    return one(contiguous(input.type, input.shape));
  };
}

namespace {

// The CPU's fused kernel lays its result out as the query: length and heads swapped, and dense.
std::vector<int64_t> attention_strides(const tensor_type& query) {
  auto swapped = query;
  if (query.dim() == 4) {
    std::swap(swapped.shape[1], swapped.shape[2]);
    std::swap(swapped.strides[1], swapped.strides[2]);
  }
  auto strides = preserved_strides(swapped);
  if (query.dim() == 4) std::swap(strides[1], strides[2]);
  return strides;
}

expected<void> check_mask(const arguments& a, const tensor_type& query, const tensor_type& key) {
  const auto* mask = a.optional_tensor("attn_mask");
  if (!mask) return {};
  if (a.flag("is_causal")) return refuse("attn_mask and is_causal exclude each other");
  if (mask->type != dtype::bool_) CUDAL1_CHECK(check_same_type(query, *mask, "query", "attn_mask"));
  CUDAL1_CHECK(check_contiguous(*mask, "attn_mask"));
  if (mask->dim() != 2 && mask->dim() != query.dim())
    return refuse("attn_mask is {}, and should have 2 or {} dimensions", mask->text(), query.dim());
  auto scores = query.shape;
  scores.back() = key.shape[key.shape.size() - 2];
  CUDAL1_TRY(const auto both, broadcast(mask->shape, scores));
  if (both != scores)
    return refuse("attn_mask is {}, and does not broadcast to the scores' {}", mask->text(), shape_text(scores));
  return {};
}

}  // namespace

rule attention() {
  return [](const arguments& a) -> outcome {
    const auto &query = a.tensor("query"), &key = a.tensor("key"), &value = a.tensor("value");
    CUDAL1_CHECK(check_rank(query, 3, 4, "query"));
    const auto length = query.shape.size() - 2, width = length + 1;
    for (const auto* name : {"query", "key", "value"}) {
      const auto& t = a.tensor(name);
      CUDAL1_CHECK(check_full_precision(t, name));
      CUDAL1_CHECK(check_same_type(query, t, "query", name));
      CUDAL1_CHECK(check_rank(t, query.dim(), query.dim(), name));
      if (t.strides[width] != 1) return not_covered("{} is {}: its last dimension should be dense", name, t.text());
      auto wanted = query.shape;
      wanted[length] = t.shape[length];
      if (t.shape != wanted)
        return refuse("query is {} and {} is {}: batch, heads and size of a head should agree", query.text(), name,
                      t.text());
    }
    if (key.shape[length] != value.shape[length])
      return refuse("key is {} and value is {}: they should be of one length", key.text(), value.text());
    if (a.real("dropout_p") != 0) return refuse("dropout_p should be 0: live randomness cannot be verified");
    if (a.flag("enable_gqa")) return not_covered("enable_gqa is outside our rules");
    CUDAL1_CHECK(check_mask(a, query, key));
    if (a.flag("is_causal") && key.shape[length] != query.shape[length])
      return not_covered("is_causal is inside our rules for one length of query and key only");
    return one({query.type, query.shape, attention_strides(query)});
  };
}

}  // namespace cudal1::rules
