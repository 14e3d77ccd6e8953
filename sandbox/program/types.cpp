#include "sandbox/program/types.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/program/arithmetic.hpp"

namespace cudal1 {

int64_t size_of(dtype t) {
  switch (t) {
    case dtype::bool_:
    case dtype::uint8:
    case dtype::int8:
      return 1;
    case dtype::int16:
    case dtype::float16:
    case dtype::bfloat16:
      return 2;
    case dtype::int32:
    case dtype::float32:
      return 4;
    case dtype::int64:
    case dtype::float64:
      return 8;
  }
  return 0;
}

bool is_floating(dtype t) {
  return t == dtype::float16 || t == dtype::bfloat16 || t == dtype::float32 || t == dtype::float64;
}

bool is_half(dtype t) {
  return t == dtype::float16 || t == dtype::bfloat16;
}

bool is_integral(dtype t) {
  return !is_floating(t) && t != dtype::bool_;
}

std::string name_of(dtype t) {
  return enum_name(t);
}

std::optional<dtype> dtype_of(std::string_view name) {
  return enum_value<dtype>(name);
}

int64_t tensor_type::numel() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  int64_t n = 1;
  for (const auto size : shape)
    n = saturating_multiply(n, size);
  return n;
}

int64_t tensor_type::bytes() const {
  return saturating_multiply(numel(), size_of(type));
}

int64_t tensor_type::storage_bytes() const {
  if (numel() == 0) return 0;
  int64_t last = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    last = saturating_add(last, saturating_multiply(shape[d] - 1, strides[d]));
  return saturating_multiply(saturating_add(last, 1), size_of(type));
}

bool tensor_type::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t wanted = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides[d] != wanted) return false;
    wanted = saturating_multiply(wanted, shape[d]);
  }
  return true;
}

std::string tensor_type::text() const {
  const auto plain = fmt::format("{}[{}]", name_of(type), fmt::join(shape, ", "));
  return is_contiguous() ? plain : fmt::format("{} with strides [{}]", plain, fmt::join(strides, ", "));
}

std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step = saturating_multiply(step, std::max<int64_t>(shape[d], 1));
  }
  return strides;
}

tensor_type contiguous(dtype type, std::vector<int64_t> shape) {
  auto strides = contiguous_strides(shape);
  return {type, std::move(shape), std::move(strides)};
}

}  // namespace cudal1
