// CUDA_VISIBLE_DEVICES, as CUDA reads it.
#pragma once

#include <string_view>
#include <vector>

#include "sandbox/cuda/gpus/gpu.hpp"

namespace cudal1 {

// Those of `all` (in the bus's order) that `list` shows, in its order, with `index` counted anew. Entries are indices
// or the beginning of one GPU's uuid; as with CUDA, an entry that is none of `all` ends the list, and an empty list
// shows nothing. An index counts in the bus's order, which is CUDA's where all GPUs are of one model or
// CUDA_DEVICE_ORDER=PCI_BUS_ID. errc::unsupported for parts of a GPU ("MIG-...").
expected<std::vector<gpu_description>> visible_gpus(std::vector<gpu_description> all, std::string_view list);

}  // namespace cudal1
