// What tensor cores compute, for the 32 lanes of a warp at once: products of matrices whose fragments lie in the lanes,
// with PTX's layouts (mma.sync, ldmatrix).
#pragma once

#include <array>

#include "sandbox/cpu/dialect/abi.hpp"
#include "sandbox/cpu/runtime/block_fibers.hpp"

namespace cudal1 {

inline constexpr int warp_lanes = 32;

// d += a b. TF32 operands lose their low 13 bits, as on a GPU, rounded or not. Products are exact and added in float32
// in the order of k; a GPU adds several at once and may round otherwise.
void multiply_tf32(const std::array<const cudal1_product_part*, warp_lanes>& lanes);  // 16x8x8
void multiply_half_types(const std::array<const cudal1_product_part*, warp_lanes>& lanes,
                         cudal1_warp_operation type);  // 16x8x16

// What this thread of the 128 of a warpgroup gets of a product from shared memory (wgmma), added up as above.
void multiply_of_warpgroup(const pending_product& p, int thread);

// `matrices` matrices of 8 rows of 8 elements of 16 bits; row i of matrix m is named by lane 8 m + i.
void load_matrices(const std::array<const cudal1_load_part*, warp_lanes>& lanes, int matrices, bool transposed);

}  // namespace cudal1
