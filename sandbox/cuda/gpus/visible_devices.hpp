// CUDA_VISIBLE_DEVICES, as CUDA reads it.
#pragma once

#include <string_view>
#include <vector>

#include "sandbox/cuda/gpus/gpu.hpp"

namespace cudal1 {

// The GPUs of `all` (in the order of the bus) that `list` shows, in the list's order and with new indices. Entries are
// indices or the beginning of one GPU's uuid; as with CUDA, an entry that names none of `all` ends the list, and an
// empty list shows nothing. Indices are in the order of the bus, which is CUDA's if all GPUs are of one model or with
// CUDA_DEVICE_ORDER=PCI_BUS_ID. errc::unsupported for parts of a GPU ("MIG-...").
expected<std::vector<gpu_description>> visible_gpus(std::vector<gpu_description> all, std::string_view list);

}  // namespace cudal1
