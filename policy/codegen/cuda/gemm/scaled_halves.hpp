// Operands of float32 as scaled halves: what they are in memory, and the kernels that make them.
#pragma once

#include <string>

#include "policy/codegen/cuda/gemm/product_tiling.hpp"
#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

inline constexpr int64_t halves_of_row = 64;  // of a row of a tile: high and low ones

// One operand as halves in tiles, and the exponents of its rows' (or columns') powers of two.
struct halves_of_side {
  body_access halves, exponents;
};
halves_of_side halves_of(const kernel_body& body, const product_tiling& t, const product_side& side,
                         const std::string& name);

// Splits the operand that the node is. `which`: "left", "right" or "right" with a number, as the kernel is named.
expected<emitted_kernel> split_operand(const emit_request& request, const product_tiling& t, const product_side& side,
                                       int node, const std::string& which, const halves_of_side& into);

}  // namespace cudal1
