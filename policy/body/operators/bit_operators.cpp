#include "policy/body/operators/bit_operators.hpp"

#include "policy/body/operator_values.hpp"

namespace cudal1 {

// Where the further bits of operands are copies of the sign (or zeros), the result's further bits are that too.
expected<void> build_bits(body_builder& b, const graph_step& s) {
  const dtype type = s.result_types[0].type;
  CUDAL1_TRY(const int node, expression_node(b, s, s.result_types[0], type, type));
  return b.bind(s, 0, node);
}

expected<void> build_complement(body_builder& b, const graph_step& s) {
  const dtype type = s.result_types[0].type;
  CUDAL1_TRY(const int x, b.operand(s, "self", s.result_types[0], type));
  if (type == dtype::bool_) return b.bind(s, 0, b.pointwise("!$0", {x}, type));
  return b.bind(s, 0, b.wrapped_to(type, b.pointwise("~$0", {x}, type)));
}

// PyTorch defines what C does not: an amount that is negative, or not less than the type's width, moves every bit out,
// so that a left shift gives zero and a right shift copies of the sign. A left shift may reach the sign.
expected<void> build_shift(body_builder& b, const graph_step& s, kernel_form form) {
  const dtype type = s.result_types[0].type;
  CUDAL1_TRY(const int x, operand_or_number(b, s, "self", s.result_types[0], type));
  CUDAL1_TRY(const int amount, operand_or_number(b, s, "other", s.result_types[0], type));
  const auto width = 8 * size_of(type);
  const auto number = number_argument(s, "other");
  const bool is_inside = number && *number >= 0 && *number < static_cast<double>(width);
  if (form == kernel_form::left_shift) {
    const std::string moved =
        type == dtype::int64 ? "(long long)((unsigned long long)$0 << $1)" : "(int)((unsigned)$0 << $1)";
    const std::string text = is_inside ? moved : fmt::format("$1 >= 0 && $1 < {} ? {} : 0", width, moved);
    return b.bind(s, 0, b.wrapped_to(type, b.pointwise(text, {x, amount}, type, 2)));
  }
  const auto most = type == dtype::uint8 ? width : width - 1;
  const std::string text = is_inside ? "$0 >> $1" : fmt::format("$0 >> ($1 >= 0 && $1 < {0} ? $1 : {0})", most);
  return b.bind(s, 0, b.pointwise(text, {x, amount}, type, 2));
}

}  // namespace cudal1
