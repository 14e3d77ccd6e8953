// The lanes of the interpreter's programs on a GPU: lane_streams with errors as values, in the runner's memory.
#pragma once

#include <memory>

#include "sandbox/cuda/runtime/gpu_arena.hpp"
#include "sandbox/interpreter/lane_plan.hpp"

namespace cudal1 {

// `arena` must outlive it. Errors of its calls are errc::variant_fault: they may report the fault of an earlier kernel.
std::unique_ptr<lane_driver> make_cuda_lanes(int device, device_arena& arena);

}  // namespace cudal1
