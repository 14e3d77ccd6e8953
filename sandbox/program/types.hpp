// Element types and tensor types: what is known about a tensor before anything runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"

namespace cudal1 {

// PyTorch's names ("bool" in texts).
BOOST_DEFINE_ENUM_CLASS(dtype, bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)

int64_t size_of(dtype t);  // bytes per element
bool is_floating(dtype t);
bool is_half(dtype t);      // float16 or bfloat16
bool is_integral(dtype t);  // without bool
std::string name_of(dtype t);
std::optional<dtype> dtype_of(std::string_view name);

// A strided tensor: `strides` in elements, one for each dimension; a stride of 0 is a broadcast.
struct tensor_type {
  dtype type = dtype::float32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  int64_t dim() const { return static_cast<int64_t>(shape.size()); }
  int64_t numel() const;
  int64_t bytes() const;          // numel times the element's size
  int64_t storage_bytes() const;  // from the first to the last addressed byte
  bool is_contiguous() const;
  bool operator==(const tensor_type&) const = default;
  std::string text() const;  // "float32[4, 8]", with strides where not contiguous
};
BOOST_DESCRIBE_STRUCT(tensor_type, (), (type, shape, strides))

// Row-major strides; dimensions of size 0 count as 1, as in PyTorch.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape);
tensor_type contiguous(dtype type, std::vector<int64_t> shape);

}  // namespace cudal1
