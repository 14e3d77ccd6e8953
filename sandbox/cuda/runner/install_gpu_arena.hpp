// The arena as LibTorch's allocator of a GPU's memory.
#pragma once

#include "sandbox/cuda/runtime/gpu_arena.hpp"

namespace cudal1 {

// Once a process, before LibTorch's first use of that GPU; both stay until the process ends.
expected<void> install_arena(device_arena& arena, int device);

}  // namespace cudal1
