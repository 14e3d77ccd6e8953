// Installs the arena as LibTorch's allocator of a GPU's memory.
#pragma once

#include "sandbox/cuda/runtime/gpu_arena.hpp"

namespace cudal1 {

// Call it once per process, before LibTorch's first use of that GPU; the arena must live until the process ends.
expected<void> install_arena(device_arena& arena, int device);

}  // namespace cudal1
