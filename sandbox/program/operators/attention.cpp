// Attention as one operator.
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace rules {

namespace {

// The CPU's fused kernel lays out its result like the query with length and heads swapped, and dense.
std::vector<int64_t> attention_strides(const tensor_type& query, const std::vector<int64_t>& shape) {
  if (shape != query.shape) return contiguous_strides(shape);
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
    return refuse("attn_mask is {}, but should have 2 or {} dimensions", mask->text(), query.dim());
  auto scores = query.shape;
  scores.back() = key.shape[key.shape.size() - 2];
  CUDAL1_TRY(const auto both, broadcast(mask->shape, scores));
  if (both != scores)
    return refuse("attn_mask is {}, but does not broadcast to the scores' {}", mask->text(), shape_text(scores));
  return {};
}

rule attention() {
  return [](const arguments& a) -> outcome {
    const auto &query = a.tensor("query"), &key = a.tensor("key"), &value = a.tensor("value");
    CUDAL1_CHECK(check_rank(query, 2, 64, "query"));
    const auto length = query.shape.size() - 2, width = length + 1;
    const bool shared_heads = a.flag("enable_gqa");
    if (shared_heads) CUDAL1_CHECK(check_rank(query, 3, 64, "query"));
    for (const auto* name : {"query", "key", "value"}) {
      const auto& t = a.tensor(name);
      CUDAL1_CHECK(check_kind(t, floats, name));
      CUDAL1_CHECK(check_same_type(query, t, "query", name));
      CUDAL1_CHECK(check_rank(t, query.dim(), query.dim(), name));
      if (t.strides[width] != 1) return not_covered("{} is {}: its last dimension should be dense", name, t.text());
      auto wanted = query.shape;
      wanted[length] = t.shape[length];
      if (&t == &value) wanted[width] = t.shape[width];
      if (shared_heads && &t != &query && query.shape[length - 1] % t.shape[length - 1] == 0)
        wanted[length - 1] = t.shape[length - 1];
      if (t.shape != wanted)
        return refuse("query is {} and {} is {}: batch, heads and size of a head should agree", query.text(), name,
                      t.text());
    }
    if (key.shape[length] != value.shape[length] || (shared_heads && key.shape[length - 1] != value.shape[length - 1]))
      return refuse("key is {} and value is {}: they should have the same length{}", key.text(), value.text(),
                    shared_heads ? " and as many heads" : "");
    if (a.real("dropout_p") != 0) return refuse("dropout_p should be 0: live randomness cannot be verified");
    CUDAL1_CHECK(check_mask(a, query, key));
    auto shape = query.shape;
    shape[width] = value.shape[width];
    auto strides = attention_strides(query, shape);
    return one({query.type, std::move(shape), std::move(strides)});
  };
}

}  // namespace

}  // namespace rules

namespace {

using namespace work_parts;

// Query x key and weights x value; a causal mask keeps the pairs up to the diagonal.
double attention_flops(const operator_call& call, const tensor_type&) {
  const auto* q = tensor_of(call, "query");
  const auto* k = tensor_of(call, "key");
  const auto* v = tensor_of(call, "value");
  if (q == nullptr || k == nullptr || v == nullptr || q->dim() < 2 || q->numel() == 0) return 0;
  const int64_t queries = q->shape[q->shape.size() - 2], keys = k->shape[k->shape.size() - 2];
  const auto* flag = argument<scalar_value>(call, "is_causal");
  const bool causal = flag != nullptr && std::holds_alternative<bool>(*flag) && std::get<bool>(*flag);
  double pairs = static_cast<double>(queries) * static_cast<double>(keys);
  if (causal) {
    pairs = 0;
    for (int64_t i = 0; i < queries; ++i)
      pairs += static_cast<double>(std::min(i + 1, keys));
  }
  const auto batch = static_cast<double>(q->numel()) / static_cast<double>(queries * q->shape.back());
  return 2 * batch * pairs * static_cast<double>(q->shape.back() + v->shape.back());
}

}  // namespace

std::vector<operator_record> attention_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::attention, {
      {"aten::scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0., bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor", attention(), {.needs_relayout = true, .flops = attention_flops}},
  });
  // clang-format on
}

}  // namespace cudal1
