#include "policy/body/operators/product_operators.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>

#include "policy/graph/proofs.hpp"

namespace cudal1 {

namespace {

constexpr product_signature k_products[] = {
    {"aten::mm", "self", "mat2", "", "aten::mm"},          {"aten::bmm", "self", "mat2", "", "aten::bmm"},
    {"aten::matmul", "self", "other", "", "aten::matmul"}, {"aten::linear", "input", "weight", "bias", "aten::linear"},
    {"aten::addmm", "mat1", "mat2", "self", "aten::mm"},   {"aten::baddbmm", "batch1", "batch2", "self", "aten::bmm"},
};

// An operand of a product: a matrix, or a batch of them, with lines (A's rows, or B's columns) along a dimension of the
// result, and k.
struct matrix_operand {
  std::string value;
  bool is_k_last = true;
  std::size_t result_dim = 0;  // of the lines
  band known = {};
};

// Where the elements of the operand lie, of a result at `out`.
place place_of_operand(const graph& g, const matrix_operand& f, int k, const place& out) {
  const tensor_type& type = g.type_of(f.value);
  const std::size_t before = type.shape.size() - 2;
  place where(type.shape.size());
  for (std::size_t d = 0; d < before; ++d)
    if (type.shape[d] != 1) where[d] = out[out.size() - 2 - before + d];
  where[f.is_k_last ? before : before + 1] = out[f.result_dim];
  where[f.is_k_last ? before + 1 : before].terms = {{k, 1}};
  return where;
}

// Matrices whose m, n and k are those of one matrix each, or of each matrix of both batches: what is known of zeros in
// them holds for the product.
void note_bands(const graph& g, const graph_step& s, matrix_operand& a, matrix_operand& b) {
  const tensor_type &x = g.type_of(a.value), &y = g.type_of(b.value);
  const auto is_plain_batch = [](const tensor_type& t) {
    return t.dim() == 3 && (t.shape[0] == 1 || t.strides[0] != 0);
  };
  const bool of_batches = s.op() != "aten::matmul" && is_plain_batch(x) && is_plain_batch(y);
  if (!of_batches && (x.dim() != 2 || y.dim() != 2)) return;
  // Zeros are left out, which times infinity are NaN.
  if (is_never_finite(g, a.value) || is_never_finite(g, b.value)) return;
  a.known = band_of(g, a.value);
  b.known = band_of(g, b.value);
  if (s.op() == "aten::linear") b.known = b.known.transposed();
}

// The rows of a table that other values choose, if that is all that A is: without the NaN that stands where there is
// none (see build_lookup).
struct chosen_rows {
  int rows = -1, number = -1;
  std::string exists;
};
std::optional<chosen_rows> chosen_rows_of(body_builder& b, int a) {
  const body_node& select = b.node(a);
  if (select.kind != node_kind::pointwise || select.expression != "$0 ? $1 : $2") return std::nullopt;
  const body_node& rows = b.node(select.operands[1]);
  if (rows.kind != node_kind::load || rows.operands.empty()) return std::nullopt;
  return chosen_rows{select.operands[1], rows.operands[0], b.node(select.operands[0]).expression};
}

expected<int> multiplied(body_builder& builder, const matrix_operand& a, const matrix_operand& b, const place& out) {
  const graph& g = builder.program();
  const tensor_type& type = g.type_of(a.value);
  const int k = builder.k_axis_of(a.value, a.is_k_last ? type.shape.back() : type.shape[type.shape.size() - 2]);
  const place a_place = place_of_operand(g, a, k, out), b_place = place_of_operand(g, b, k, out);
  if (!builder.is_computed(a.value)) {
    CUDAL1_TRY(const int x, builder.operand_in_memory(a.value, a_place));
    CUDAL1_TRY(const int y, builder.operand_in_memory(b.value, b_place));
    return builder.contraction(k, x, y, a.known, b.known);
  }
  CUDAL1_TRY(const int made, builder.computed_operand(a.value, a_place));
  CUDAL1_TRY(const int y, builder.operand_in_memory(b.value, b_place));
  const auto chosen = chosen_rows_of(builder, made);
  if (!chosen) return builder.contraction(k, made, y, {}, b.known);
  // NaN where the numbers name no row.
  const int product = builder.contraction(k, chosen->rows, y, {}, b.known);
  const int exists = builder.pointwise(chosen->exists, {chosen->number}, dtype::bool_);
  return builder.pointwise("$0 ? $1 : $2",
                           {exists, product, builder.constant(std::numeric_limits<double>::quiet_NaN())});
}

expected<void> check_types(const graph_step& s, std::initializer_list<const tensor_type*> types) {
  const dtype type = s.result_types[0].type;
  for (const auto* each : types) {
    if (each->type != type || (type != dtype::float32 && !is_half(type)))
      return fail(errc::unsupported, "{} on {} stays a library call", s.op(), name_of(each->type));
    if (each->dim() < 2 || each->numel() == 0)
      return fail(errc::unsupported, "{} of vectors or of nothing stays a library call", s.op());
  }
  return {};
}

expected<void> build_product(body_builder& builder, const graph_step& s) {
  const product_signature& form = *find_product_signature(s.op());
  const tensor_type& result = s.result_types[0];
  const std::size_t dims = result.shape.size();
  if (!builder.rows().windows.empty()) return fail(errc::unsupported, "a kernel of windows computes no product");
  // A part has other columns than the matrix whose band is known, and B is what has parts.
  const bool in_parts = builder.parts() && !builder.is_in_operand();
  if (result.shape != builder.shape() ||
      (in_parts && (result.shape != builder.parts()->whole || builder.parts()->dim + 1 != std::ssize(result.shape))))
    return fail(errc::unsupported, "{} has another shape than the rest of the kernel", result.text());
  const graph& g = builder.program();
  const auto [a_value, b_value] = product_operands(g, s);
  CUDAL1_CHECK(check_types(s, {&g.type_of(a_value), &g.type_of(b_value), &result}));
  // A layer's weight has a row for each column of the result.
  matrix_operand a{.value = a_value, .is_k_last = true, .result_dim = dims - 2},
      b{.value = b_value, .is_k_last = s.op() == "aten::linear", .result_dim = dims - 1};
  note_bands(g, s, a, b);
  if (in_parts) b.known = {};
  if (!in_parts && !builder.is_computed(a_value) && builder.is_computed(b_value)) {
    std::swap(a, b);
    b.known = b.known.transposed();
  }
  CUDAL1_TRY(const place out, builder.place_of(result));
  CUDAL1_TRY(int value, multiplied(builder, a, b, out));
  const double alpha = number_argument(s, "alpha").value_or(1), beta = number_argument(s, "beta").value_or(1);
  if (alpha != 1) value = builder.pointwise("$0 * $1", {value, builder.constant(alpha)});
  if (!form.added.empty() && tensor_argument_name(s, form.added) && beta != 0) {
    CUDAL1_TRY(int added, builder.operand(s, form.added, result, dtype::float32));
    if (beta != 1) added = builder.pointwise("$0 * $1", {added, builder.constant(beta)});
    value = builder.pointwise("$0 + $1", {value, added});
  }
  return builder.bind(s, 0, value);
}

}  // namespace

const product_signature* find_product_signature(std::string_view op) {
  const auto* found = std::ranges::find(k_products, op, &product_signature::op);
  return found == std::end(k_products) ? nullptr : found;
}

bool is_own_product(const graph_step& s) {
  return !s.is_replaced() && find_product_signature(s.op()) != nullptr;
}

std::array<std::string, 2> product_operands(const graph& g, const graph_step& s) {
  const auto& form = *find_product_signature(s.op());
  return {g.resolve(*tensor_argument_name(s, form.a)), g.resolve(*tensor_argument_name(s, form.b))};
}

const operator_builder& product_builder() {
  static const operator_builder builder = build_product;
  return builder;
}

}  // namespace cudal1
