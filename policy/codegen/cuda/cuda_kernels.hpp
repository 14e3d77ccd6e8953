// The kernel forms for GPUs. Private to this folder.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "policy/codegen/cuda/cut_convolution.hpp"
#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/kernel_tunable.hpp"

namespace cudal1 {

expected<emitted_kernel> emit_cuda_elements(const emit_request& request);  // vectors of neighbouring elements
// The dimension along which operands of the kernel of elements are contiguous, where that is not the last one, along
// which the results have them; nothing where none has.
std::optional<std::size_t> transposed_dimension(const kernel_body& body);
// Tiles in shared memory.
expected<emitted_kernel> emit_cuda_transposed(const emit_request& request, std::size_t dimension);
expected<emitted_kernel> emit_cuda_rows(const emit_request& request);     // several threads per row
expected<emitted_kernel> emit_cuda_windows(const emit_request& request);  // pools, and convolutions of single channels
// Convolutions that add up channels, without tensor cores and on them. `cut`: where places are reduced, the body is the
// first one of these; else null.
expected<emitted_kernel> emit_cuda_convolutions(const emit_request& request, const cut_convolution* cut);
expected<emitted_kernel> emit_cuda_warpgroup_convolutions(const emit_request& request, const cut_convolution* cut);

// Values that most have.
inline constexpr std::array<int64_t, 5> block_sizes{64, 128, 256, 512, 1024};
inline constexpr std::array<int64_t, 6> items_of_threads{1, 2, 4, 8, 16, 32};
inline constexpr std::array<int64_t, 5> channels_at_once{4, 8, 16, 32, 64};  // of convolutions
// What moves may choose for them, with the values of each.
std::span<const kernel_tunable> tunables_of_elements();
std::span<const kernel_tunable> tunables_of_rows();
std::span<const kernel_tunable> tunables_of_windows();
std::span<const kernel_tunable> tunables_of_convolutions();
std::span<const kernel_tunable> tunables_of_warpgroup_convolutions();
std::span<const kernel_tunable> tunables_of_products();

}  // namespace cudal1
