#include "policy/codegen/product_operators.hpp"

#include <algorithm>

#include "policy/graph/proofs.hpp"

namespace cudal1 {

namespace {

constexpr product_signature k_products[] = {
    {"aten::mm", "self", "mat2", "", "aten::mm"},          {"aten::bmm", "self", "mat2", "", "aten::bmm"},
    {"aten::matmul", "self", "other", "", "aten::matmul"}, {"aten::linear", "input", "weight", "bias", "aten::linear"},
    {"aten::addmm", "mat1", "mat2", "self", "aten::mm"},   {"aten::baddbmm", "batch1", "batch2", "self", "aten::bmm"},
};

// The strides of a matrix's rows or columns and of the dimensions before them, by dimension of the result.
std::vector<int64_t> strides_along(const tensor_type& type, std::size_t own_dim, std::size_t result_dim,
                                   std::size_t result_dims) {
  std::vector<int64_t> out(result_dims, 0);
  const std::size_t before = type.shape.size() - 2;
  for (std::size_t d = 0; d < before; ++d)
    out[result_dims - 2 - before + d] = type.shape[d] == 1 ? 0 : type.strides[d];
  out[result_dim] = type.strides[own_dim];
  return out;
}

// What is known to be zero of the matrices of this value, or of the transposed ones.
triangle triangle_of(const graph& g, const std::string& value, bool transposed) {
  if (prove(g, value, fact::lower_triangular)) return transposed ? triangle::upper : triangle::lower;
  if (prove(g, value, fact::upper_triangular)) return transposed ? triangle::lower : triangle::upper;
  return triangle::none;
}

expected<void> build_product(body_builder& b, const graph_step& s) {
  const product_signature& form = *find_product_signature(s.op());
  const tensor_type& result = s.result_types[0];
  if (result.shape != b.domain().shape ||
      (b.domain().parts > 1 && b.domain().joined_dim + 1 != std::ssize(result.shape)))
    return fail(errc::unsupported, "{} has another shape than the rest of the kernel", result.text());
  const graph& g = b.program();
  body_builder::product_factor left{g.resolve(*tensor_argument_name(s, form.left)), {}, 0},
      right{g.resolve(*tensor_argument_name(s, form.right)), {}, 0};
  const tensor_type &x = g.type_of(left.value), &y = g.type_of(right.value);
  for (const auto* type : {&x, &y, &result})
    if (type->type != result.type || (result.type != dtype::float32 && !is_half(result.type)))
      return fail(errc::unsupported, "{} on {} stays a library call", s.op(), name_of(type->type));
  for (const auto* type : {&x, &y, &result})
    if (type->dim() < 2 || type->numel() == 0)
      return fail(errc::unsupported, "{} of vectors or of nothing stays a library call", s.op());
  const std::size_t dims = result.shape.size(), row = x.shape.size() - 2;
  left.strides = strides_along(x, row, dims - 2, dims);
  left.step = x.strides[row + 1];
  const bool transposed = s.op() == "aten::linear";  // the weight has a row for each column of the result
  const std::size_t column = y.shape.size() - (transposed ? 2 : 1), term = y.shape.size() - (transposed ? 1 : 2);
  right.strides = strides_along(y, column, dims - 1, dims);
  right.step = y.strides[term];
  // Rows, columns and terms are then those of one matrix each, or of each matrix of both batches.
  const auto is_plain_batch = [](const tensor_type& t) {
    return t.dim() == 3 && (t.shape[0] == 1 || t.strides[0] != 0);
  };
  if ((x.dim() == 2 && y.dim() == 2) || (s.op() != "aten::matmul" && is_plain_batch(x) && is_plain_batch(y))) {
    left.known = triangle_of(g, left.value, false);
    right.known = triangle_of(g, right.value, transposed);
  }
  CUDAL1_TRY(int value, b.product(left, right, x.shape.back()));
  const double alpha = number_argument(s, "alpha").value_or(1), beta = number_argument(s, "beta").value_or(1);
  if (alpha != 1) value = b.pointwise("$0 * $1", {value, b.constant(alpha)});
  if (!form.added.empty() && tensor_argument_name(s, form.added) && beta != 0) {
    CUDAL1_TRY(int added, b.operand(s, form.added, result, dtype::float32));
    if (beta != 1) added = b.pointwise("$0 * $1", {added, b.constant(beta)});
    value = b.pointwise("$0 + $1", {value, added});
  }
  return b.bind(s, 0, value);
}

}  // namespace

const product_signature* find_product_signature(std::string_view op) {
  const auto* found = std::ranges::find(k_products, op, &product_signature::op);
  return found == std::end(k_products) ? nullptr : found;
}

bool is_own_product(const graph_step& s) {
  return !s.is_replaced() && find_product_signature(s.op()) != nullptr;
}

const operator_builder& product_builder() {
  static const operator_builder builder = build_product;
  return builder;
}

}  // namespace cudal1
