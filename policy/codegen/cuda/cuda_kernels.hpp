// The kernel forms for GPUs. Private to this folder.
#pragma once

#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

expected<emitted_kernel> emit_cuda_elements(const emit_request& request);  // vectors of neighbouring elements
expected<emitted_kernel> emit_cuda_rows(const emit_request& request);      // several threads per row

}  // namespace cudal1
