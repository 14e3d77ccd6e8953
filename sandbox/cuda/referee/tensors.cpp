#include "sandbox/cuda/referee/tensors.hpp"

#include <ATen/ops/from_blob.h>

namespace cudal1 {

at::ScalarType element_type(dtype t) {
  switch (t) {
    case dtype::bool_:
      return at::kBool;
    case dtype::uint8:
      return at::kByte;
    case dtype::int8:
      return at::kChar;
    case dtype::int16:
      return at::kShort;
    case dtype::int32:
      return at::kInt;
    case dtype::int64:
      return at::kLong;
    case dtype::float16:
      return at::kHalf;
    case dtype::bfloat16:
      return at::kBFloat16;
    case dtype::float32:
      return at::kFloat;
    case dtype::float64:
      return at::kDouble;
  }
  return at::kFloat;
}

at::Tensor tensor_over(const tensor_type& type, void* data, at::Device device) {
  return at::for_blob(data, type.shape)
      .strides(type.strides)
      .target_device(device)
      .options(at::TensorOptions().dtype(element_type(type.type)).device(device))
      .make_tensor();
}

}  // namespace cudal1
