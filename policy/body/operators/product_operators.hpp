// Matrix products as part of a kernel, which computes their epilogue too.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "policy/body/body_builder.hpp"

namespace cudal1 {

// The arguments of a product operator.
struct product_signature {
  std::string_view op, a, b;
  std::string_view added;  // "" for none; a linear layer's bias may be missing
  std::string_view plain;  // the operator without an addend
};
// Null for other operators.
const product_signature* find_product_signature(std::string_view op);

// Whether the step is a product that no move has replaced.
bool is_own_product(const graph_step& s);
// The values that such a product multiplies: A and B.
std::array<std::string, 2> product_operands(const graph& g, const graph_step& s);
// Builds products of matrices of float32 or a half type, also of batches. errc::unsupported with the reason for others.
const operator_builder& product_builder();

}  // namespace cudal1
