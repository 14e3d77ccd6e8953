// How much memory a GPU's runner has for the tensors of its programs.
#pragma once

#include <algorithm>
#include <cstdint>

namespace cudal1 {

// Of the two programs that it holds together, in bytes. `limit`: of one of them (device.gpu_memory_limit_mb); 0: a
// sixth of the GPU's memory, but at least 16 GiB. There may be less memory free.
inline int64_t runner_tensor_bytes(int64_t limit, int64_t gpu_bytes) {
  constexpr int64_t least = int64_t{16} << 30, residents = 2;
  return residents * (limit > 0 ? limit : std::max(least, gpu_bytes / 6));
}

}  // namespace cudal1
