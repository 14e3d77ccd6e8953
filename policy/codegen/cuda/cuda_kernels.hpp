// The kernel forms for GPUs. Private to this folder.
#pragma once

#include "policy/codegen/cuda/product_tiling.hpp"
#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

expected<emitted_kernel> emit_cuda_elements(const emit_request& request);  // vectors of neighbouring elements
// The dimension along which operands of the kernel of elements have theirs side by side in memory, where that is not
// the last one, along which the results have them; nothing where none has.
std::optional<std::size_t> transposed_dimension(const kernel_body& body);
// Tiles in shared memory.
expected<emitted_kernel> emit_cuda_transposed(const emit_request& request, std::size_t dimension);
expected<emitted_kernel> emit_cuda_rows(const emit_request& request);  // several threads per row
emitted_kernel emit_cuda_windows(const emit_request& request);         // pools, and convolutions of single channels
// Tiles of a product, and what follows it per element.
emitted_kernel emit_cuda_product(const emit_request& request, const product_tiling& tiling);
// The same for small products: the warps of a block share the depth and read from memory to their registers.
emitted_kernel emit_depth_of_warps(const emit_request& request, const product_tiling& tiling);
// The same of few terms: each thread adds up its own elements, without tensor cores.
emitted_kernel emit_thread_sums(const emit_request& request, const product_tiling& tiling);
// The same of float32 factors as halves, which further kernels make.
emitted_kernel emit_scaled_halves(const emit_request& request, const product_tiling& tiling);
// The same of factors of half types, for large products: warpgroups multiply tiles in shared memory.
emitted_kernel emit_warpgroup_tiles(const emit_request& request, const product_tiling& tiling);

}  // namespace cudal1
