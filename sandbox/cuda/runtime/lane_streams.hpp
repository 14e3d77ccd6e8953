// Lanes of a program as streams of a GPU, in LibTorch's eyes too: its operators and our launches follow. Fork and join
// are events alone, so that a capture of the first stream takes the others in.
#pragma once

#include <memory>

#include "sandbox/cuda/runtime/gpu_arena.hpp"
#include "sandbox/interpreter/lane_plan.hpp"

namespace cudal1 {

// `arena` must outlive it. Errors of its calls are errc::variant_fault: what a kernel did before shows there.
std::unique_ptr<lane_driver> make_cuda_lanes(int device, device_arena& arena);

}  // namespace cudal1
