// Tensor maps of CUDA's driver, with exceptions as errors. Exported KernelBench files contain the text of this header,
// as that of cuda_calls.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/cuda/runtime/cuda_calls.hpp"

namespace cudal1 {

// What a map says of its tensor, row-major: strides and the bytes of an element, of which it knows the sizes of
// floating and integral types apart.
struct mapped_tensor {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  int64_t element_bytes = 4;
  std::vector<int64_t> shape, strides;  // in elements
  std::vector<int64_t> box;
  int64_t swizzle = 0;  // 0, 32, 64 or 128 bytes
};

// Throws cuda_failure: the driver refuses the map, as for an address that is no multiple of 16, or lacks the function.
inline CUtensorMap map_of(const mapped_tensor& t, const void* data) {
  static std::string why;
  static const auto encode =
      reinterpret_cast<decltype(&::cuTensorMapEncodeTiled)>(find_driver_function("cuTensorMapEncodeTiled", why));
  if (encode == nullptr) throw cuda_failure("cuTensorMapEncodeTiled", why);
  const auto rank = t.shape.size();
  std::array<cuuint64_t, 5> sizes{}, strides{};
  std::array<cuuint32_t, 5> box{}, steps{};
  for (std::size_t d = 0; d < rank; ++d) {  // innermost first
    const auto of = rank - 1 - d;
    sizes[d] = static_cast<cuuint64_t>(t.shape[of]);
    box[d] = static_cast<cuuint32_t>(t.box[of]);
    steps[d] = 1;
    if (d > 0) strides[d - 1] = static_cast<cuuint64_t>(t.strides[of] * t.element_bytes);
  }
  const auto swizzle = t.swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                       : t.swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                       : t.swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                         : CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMap map{};
  const auto status = encode(&map, t.type, static_cast<cuuint32_t>(rank), const_cast<void*>(data), sizes.data(),
                             strides.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status == CUDA_SUCCESS) return map;
  throw cuda_failure("cuTensorMapEncodeTiled", reinterpret_cast<uintptr_t>(data) % 16 != 0
                                                   ? "the tensor's address is no multiple of 16 bytes"
                                                   : "error " + std::to_string(static_cast<int>(status)));
}

}  // namespace cudal1
