#include "policy/codegen/product_operators.hpp"

#include <algorithm>
#include <limits>

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

// How a factor of a product lies in memory: a matrix with lines (the left one's rows, or the right one's columns), each
// along a dimension of the result, and terms.
struct factor_place {
  body_builder::product_factor in_memory;
  std::size_t line_dim = 0, term_dim = 0, result_dim = 0;
};

factor_place place_of_factor(const graph& g, std::string value, bool terms_last, std::size_t result_dim,
                             std::size_t result_dims) {
  const tensor_type& type = g.type_of(value);
  const std::size_t last = type.shape.size() - 1;
  factor_place out{{std::move(value), {}, 0}, terms_last ? last - 1 : last, terms_last ? last : last - 1, result_dim};
  out.in_memory.strides = strides_along(type, out.line_dim, result_dim, result_dims);
  out.in_memory.step = type.strides[out.term_dim];
  return out;
}

// What the kernel takes as its left factor: the product's left one, or the right one where that is made in the kernel.
struct left_factor {
  body_builder::made_factor made;
  // Where the factor is rows of a table which others choose: whether the row of that number exists.
  std::string row_exists;
};

// The operand that has an element for each of the factor's: a table whose rows others choose, or else the first one.
int main_operand(const kernel_body& made) {
  const auto& all = made.operands;
  const auto table = std::ranges::find_if(all, [](const body_operand& o) { return o.lookup_stride != 0; });
  if (table != all.end()) return static_cast<int>(table - all.begin());
  const auto whole = std::ranges::find_if(
      all, [](const body_operand& o) { return o.strides[o.strides.size() - 2] != 0 && o.strides.back() != 0; });
  return whole != all.end() ? static_cast<int>(whole - all.begin()) : -1;
}

// The table's rows, without the NaN where there is none (see build_lookup), if that is all that the factor is.
void take_chosen_row(left_factor& factor) {
  auto& nodes = factor.made.nodes;
  const auto node = [&](int n) -> body_node& { return nodes[static_cast<std::size_t>(n)]; };
  const auto& select = nodes.back().operands;
  if (factor.made.rows < 0 || select.size() != 3 || node(select[1]).kind != node_kind::load ||
      node(select[1]).operand != factor.made.main)
    return;
  factor.row_exists = node(select[0]).expression;
  nodes.clear();
}

// The factor that steps in front of the product make, which would lie there if it were in memory.
expected<left_factor> factor_of(const graph& g, kernel_body made, const factor_place& place) {
  const std::size_t result_dims = place.in_memory.strides.size();
  left_factor out;
  if (made.product) {
    if (made.product->rights.size() != 1)
      return fail(errc::unsupported, "a product's left factor is made of one other product");
    out.made.inner_right = made.product->rights.front();
    out.made.inner_depth = made.product->depth;
  }
  out.made.main = made.product ? made.product->left : main_operand(made);
  if (out.made.main < 0) return fail(errc::unsupported, "no operand has an element for each of the product's factors");
  for (const auto& o : made.operands) {
    tensor_type own = g.type_of(place.in_memory.value);
    own.strides = o.strides;
    const auto strides = strides_along(own, place.line_dim, place.result_dim, result_dims);
    out.made.operands.push_back(
        {o.value, strides, own.strides[place.term_dim], band(), o.lookup_stride, o.lookup_count, o.step});
  }
  out.made.nodes = std::move(made.nodes);
  for (auto& n : out.made.nodes) {
    if (n.kind != node_kind::load || n.operands.empty()) continue;
    const body_node& number = out.made.nodes[static_cast<std::size_t>(n.operands[0])];
    if (out.made.rows >= 0 || number.kind != node_kind::load)
      return fail(errc::unsupported, "a product's factor has rows of one table, chosen by a tensor in memory");
    out.made.rows = number.operand;
    n.operands.clear();
  }
  take_chosen_row(out);
  return out;
}

// Matrices whose rows, columns and terms are those of one matrix each, or of each matrix of both batches: what is known
// of zeros in them holds for the product.
void note_bands(const graph& g, const graph_step& s, body_builder::product_factor& left,
                body_builder::product_factor& right) {
  const tensor_type &x = g.type_of(left.value), &y = g.type_of(right.value);
  const auto is_plain_batch = [](const tensor_type& t) {
    return t.dim() == 3 && (t.shape[0] == 1 || t.strides[0] != 0);
  };
  const bool of_batches = s.op() != "aten::matmul" && is_plain_batch(x) && is_plain_batch(y);
  if (!of_batches && (x.dim() != 2 || y.dim() != 2)) return;
  // Zeros are left out, which times infinity are NaN.
  if (is_never_finite(g, left.value) || is_never_finite(g, right.value)) return;
  left.known = band_of(g, left.value);
  right.known = band_of(g, right.value);
  if (s.op() == "aten::linear") right.known = right.known.transposed();
}

expected<left_factor> left_factor_of(const body_builder& b, const factor_place& place) {
  CUDAL1_TRY(auto made, b.made_in_front(place.in_memory.value));
  if (made) return factor_of(b.program(), std::move(*made), place);
  left_factor out;
  out.made.operands = {place.in_memory};
  return out;
}

// NaN where the numbers that choose the left factor's rows name none.
int in_existing_rows(body_builder& b, const left_factor& left, int value) {
  if (left.row_exists.empty()) return value;
  const auto& numbers = left.made.operands[static_cast<std::size_t>(left.made.rows)];
  const int number = b.strided_load(numbers.value, numbers.strides);
  const int exists = b.pointwise(left.row_exists, {number}, dtype::bool_);
  return b.pointwise("$0 ? $1 : $2", {exists, value, b.constant(std::numeric_limits<double>::quiet_NaN())});
}

expected<void> build_product(body_builder& b, const graph_step& s) {
  const product_signature& form = *find_product_signature(s.op());
  const tensor_type& result = s.result_types[0];
  const std::size_t dims = result.shape.size();
  if (result.shape != (b.domain().parts > 1 ? b.domain().whole : b.domain().shape) ||
      (b.domain().parts > 1 && b.domain().joined_dim + 1 != static_cast<int64_t>(dims)))
    return fail(errc::unsupported, "{} has another shape than the rest of the kernel", result.text());
  const graph& g = b.program();
  const auto [left_value, right_value] = factors_of(g, s);
  const tensor_type &x = g.type_of(left_value), &y = g.type_of(right_value);
  for (const auto* type : {&x, &y, &result})
    if (type->type != result.type || (result.type != dtype::float32 && !is_half(result.type)))
      return fail(errc::unsupported, "{} on {} stays a library call", s.op(), name_of(type->type));
  for (const auto* type : {&x, &y, &result})
    if (type->dim() < 2 || type->numel() == 0)
      return fail(errc::unsupported, "{} of vectors or of nothing stays a library call", s.op());
  // A layer's weight has a row for each column of the result.
  factor_place left = place_of_factor(g, left_value, true, dims - 2, dims),
               right = place_of_factor(g, right_value, s.op() == "aten::linear", dims - 1, dims);
  note_bands(g, s, left.in_memory, right.in_memory);
  // A part has other columns than the matrix whose band is known, and the right factor is what has parts.
  const bool in_parts = b.domain().parts > 1;
  if (in_parts) right.in_memory.known = {};
  if (!in_parts && !b.is_made_in_front(left_value) && b.is_made_in_front(right_value)) {
    std::swap(left, right);
    right.in_memory.known = right.in_memory.known.transposed();
  }
  CUDAL1_TRY(const left_factor factor, left_factor_of(b, left));
  CUDAL1_TRY(int value, b.product(left.in_memory.value, factor.made, right.in_memory, x.shape.back()));
  value = in_existing_rows(b, factor, value);
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

std::array<std::string, 2> factors_of(const graph& g, const graph_step& s) {
  const auto& form = *find_product_signature(s.op());
  return {g.resolve(*tensor_argument_name(s, form.left)), g.resolve(*tensor_argument_name(s, form.right))};
}

const operator_builder& product_builder() {
  static const operator_builder builder = build_product;
  return builder;
}

}  // namespace cudal1
