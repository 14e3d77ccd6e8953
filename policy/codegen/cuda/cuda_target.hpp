// NVIDIA GPUs: vectors of elements, threads that share a row, and kernels that spread over the whole device.
#pragma once

#include "policy/codegen/lowering_target.hpp"

namespace cudal1 {

std::unique_ptr<const lowering_target> make_cuda_target();

}  // namespace cudal1
