// The definitions follow ATen's (aten/src/ATen/native/Loss.cpp and Distance.cpp, PyTorch 2.11).
#include "policy/body/operators/loss_operators.hpp"

#include "policy/body/operator_values.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_at_least = "$0 < $1 ? $1 : $0";  // NaN stays NaN
constexpr int k_root = 4, k_division = 4;

enum class reduction { none = 0, mean = 1, sum = 2 };

reduction reduction_of(const graph_step& s) {
  return static_cast<reduction>(integer_argument(s, "reduction").value_or(1));
}

double number_of(const graph_step& s, const char* name, double otherwise) {
  return number_argument(s, name).value_or(otherwise);
}

int product(body_builder& b, int x, int y) {
  return b.pointwise("$0 * $1", {x, y});
}

int sum_of_products(body_builder& b, int x, int y) {
  return b.reduce(reduction_kind::sum, product(b, x, y));
}

expected<int> element_of_loss(body_builder& b, const graph_step& s, const tensor_type& full) {
  if (s.record().traits.kernel->form == kernel_form::divergence) return divergence(b, s, full);
  return expression_node(b, s, full, dtype::float32, dtype::float32);
}

// A loss of elements, averaged or summed over all of them.
expected<void> build_loss(body_builder& b, const graph_step& s) {
  tensor_type full;
  full.shape = b.shape();
  CUDAL1_TRY(const int each, element_of_loss(b, s, full));
  const bool averaged = reduction_of(s) == reduction::mean;
  return b.bind(s, 0, averaged ? mean_of(b, each) : b.reduce(reduction_kind::sum, each));
}

// The norm of x - y + eps over the columns, where the step's p is 1 or 2.
expected<int> distance(body_builder& b, const graph_step& s, int x, int y) {
  const double p = number_of(s, "p", 2);
  if (p != 1 && p != 2)
    return fail(errc::unsupported, "{} with p={} stays a library call; p=1 and p=2 can be in a kernel", s.op(), p);
  const int d = b.pointwise("$0 - $1 + $2", {x, y, b.constant(number_of(s, "eps", 1e-6))}, dtype::float32, 2);
  if (p == 1) return b.reduce(reduction_kind::sum, b.pointwise("fabsf($0)", {d}));
  return b.pointwise("sqrtf($0)", {sum_of_products(b, d, d)}, dtype::float32, k_root);
}

expected<void> build_pairwise_distance(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s, "x1"));
  CUDAL1_TRY(const int y, elements(b, s, "x2"));
  CUDAL1_TRY(const int d, distance(b, s, x, y));
  return b.bind(s, 0, d);
}

expected<void> build_cosine_similarity(body_builder& b, const graph_step& s) {
  CUDAL1_TRY(const int x, elements(b, s, "x1"));
  CUDAL1_TRY(const int y, elements(b, s, "x2"));
  const int eps = b.constant(number_of(s, "eps", 1e-8));
  const auto norm = [&](int of) {
    return b.pointwise(k_at_least,
                       {b.pointwise("sqrtf($0)", {sum_of_products(b, of, of)}, dtype::float32, k_root), eps});
  };
  const int dot = sum_of_products(b, x, y), left = norm(x), right = norm(y);
  // One norm after the other: the product of two small ones could be 0.
  return b.bind(s, 0, b.pointwise("$0 / $1 / $2", {dot, left, right}, dtype::float32, 2 * k_division));
}

expected<void> require_loss_of_rows(const graph_step& s) {
  if (reduction_of(s) == reduction::none) return {};
  return fail(errc::unsupported, "{} that is averaged or summed in the same step stays a library call", s.op());
}

expected<void> build_triplet_margin(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_loss_of_rows(s));
  CUDAL1_TRY(const int anchor, elements(b, s, "anchor"));
  CUDAL1_TRY(const int positive, elements(b, s, "positive"));
  CUDAL1_TRY(const int negative, elements(b, s, "negative"));
  CUDAL1_TRY(const int near, distance(b, s, anchor, positive));
  CUDAL1_TRY(int far, distance(b, s, anchor, negative));
  if (boolean_argument(s, "swap").value_or(false)) {
    CUDAL1_TRY(const int swapped, distance(b, s, positive, negative));
    far = b.pointwise("$0 < $1 || $0 != $0 ? $0 : $1", {far, swapped}, dtype::float32, 2);  // NaN stays NaN
  }
  const int loss = b.pointwise("$0 + $1 - $2", {b.constant(number_of(s, "margin", 1)), near, far}, dtype::float32, 2);
  return b.bind(s, 0, b.pointwise(k_at_least, {loss, b.constant(0)}));
}

// A target of 1 means that both rows should be alike, and -1 that they should not.
expected<void> build_cosine_embedding(body_builder& b, const graph_step& s) {
  CUDAL1_CHECK(require_loss_of_rows(s));
  CUDAL1_TRY(const int x, elements(b, s, "input1"));
  CUDAL1_TRY(const int y, elements(b, s, "input2"));
  CUDAL1_TRY(const int target, b.operand(s, "target", s.result_types[0], dtype::float32));
  const int eps = b.constant(1e-12);
  const auto square = [&](int of) { return b.pointwise("$0 + $1", {sum_of_products(b, of, of), eps}); };
  const int dot = sum_of_products(b, x, y);
  const int norms = b.pointwise("sqrtf($0 * $1)", {square(x), square(y)}, dtype::float32, k_root);
  const int cosine = b.pointwise("$0 / $1", {dot, norms}, dtype::float32, k_division);
  const int apart = b.pointwise("$0 - $1", {cosine, b.constant(number_of(s, "margin", 0))});
  const int positive = b.pointwise(k_at_least, {apart, b.constant(0)});
  const std::string chosen = "$0 == 1.0f ? 1.0f - $1 : $0 == -1.0f ? $2 : 0.0f";
  return b.bind(s, 0, b.pointwise(chosen, {target, cosine, positive}, dtype::float32, 3));
}

}  // namespace

expected<int> divergence(body_builder& b, const graph_step& s, const tensor_type& result) {
  if (!boolean_argument(s, "log_target").value_or(false))
    return expression_node(b, s, result, dtype::float32, dtype::float32);
  // ATen's exponentials overflow to infinities there, which then cancel.
  if (is_half(s.result_types[0].type))
    return fail(errc::unsupported, "{} of logarithms in a half type stays a library call", s.op());
  CUDAL1_TRY(const int x, b.operand(s, "self", result, dtype::float32));
  CUDAL1_TRY(const int target, b.operand(s, "target", result, dtype::float32));
  return b.pointwise("expf($1) * ($1 - $0)", {x, target}, dtype::float32, s.record().traits.kernel->cost);
}

operator_builder builder_of_loss(row_form form) {
  switch (form) {
    case row_form::loss:
      return build_loss;
    case row_form::pairwise_distance:
      return build_pairwise_distance;
    case row_form::cosine_similarity:
      return build_cosine_similarity;
    case row_form::triplet_margin:
      return build_triplet_margin;
    case row_form::cosine_embedding:
      return build_cosine_embedding;
    default:
      return {};
  }
}

}  // namespace cudal1
