// A float32 matrix product as three TF32 products: each operand is the sum of a high part, rounded to TF32's 11 bits,
// and a low part, rounded too; the product of the low parts is below float32's precision and is left out. Products with
// a large k are made of pieces, since tensor cores truncate when they accumulate.
#pragma once

#include "policy/internal_operators/internal_operators.hpp"

namespace cudal1 {

struct float32_operands {
  std::string a, b;  // resolved values
};
// errc::invalid_argument with the reason where the step is not a float32 product.
expected<float32_operands> float32_operands_of(const graph& g, const graph_step& s);

// Replaces the step's product by three. One kernel splits each operand, however many products read it; weights are
// split in setup.
operator_use split_product(const graph_step& s);
internal_operator split_product_operator();
// The step's product as one of the library's in TF32: as exact as one of half types, and accepted only where that is.
operator_use tf32_product(const graph_step& s);
internal_operator tf32_product_operator();

}  // namespace cudal1
