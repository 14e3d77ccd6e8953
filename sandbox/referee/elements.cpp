#include "sandbox/referee/elements.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "config/base/split_mix.hpp"
#include "sandbox/referee/expected_statistics.hpp"

namespace cudal1 {
namespace {

// Half types are converted by their bits, so that the loops over them are vectorised: a library call for each element
// of float16 takes ten times as long.
struct half {
  uint16_t bits;
};
struct brain {
  uint16_t bits;
};

constexpr uint32_t least_normal_half = 113U << 23;  // 2^-14, as a float's bits
constexpr int half_shift = 13;                      // of a float's fraction

double to_double(half value) {
  const uint32_t size = value.bits & 0x7fffU, sign = (value.bits & 0x8000U) << 16;
  const uint32_t normal = (size << half_shift) + (112U << 23);
  const auto subnormal = std::bit_cast<uint32_t>(static_cast<float>(size) * 0x1p-24F);
  const uint32_t not_finite = (size << half_shift) | (255U << 23);
  return std::bit_cast<float>(sign | (size < 0x400U ? subnormal : size < 0x7c00U ? normal : not_finite));
}
double to_double(brain value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
double to_double(auto value) {
  return static_cast<double>(value);
}

// To nearest, ties to even. `value`: finite in float16, or NaN.
half to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t size = bits & 0x7fffffffU, sign = (bits >> 16) & 0x8000U;
  const uint32_t normal = (size - (112U << 23) + 0xfffU + ((size >> half_shift) & 1)) >> half_shift;
  // A step of 0.5 is the least number of float16, so that this sum is rounded to its multiples.
  const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5F) - std::bit_cast<uint32_t>(0.5F);
  const uint32_t found = size > (255U << 23) ? 0x7e00U : size < least_normal_half ? subnormal : normal;
  return {static_cast<uint16_t>(sign | found)};
}

template <class T>
T from_double(double value) {
  if constexpr (std::is_same_v<T, brain>) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    if (std::isnan(value)) return {0x7fc0};
    return {static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};  // to nearest, ties to even
  } else if constexpr (std::is_same_v<T, half>) {
    return to_half(static_cast<float>(std::clamp(value, -65504.0, 65504.0)));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    constexpr double low = static_cast<double>(std::numeric_limits<T>::min());
    constexpr double high = static_cast<double>(std::numeric_limits<T>::max());
    if (!(value > low)) return std::numeric_limits<T>::min();
    return value >= high ? std::numeric_limits<T>::max() : static_cast<T>(value);
  } else {
    return static_cast<T>(value);
  }
}

// Calls f with a value of the dtype's C++ type.
template <class F>
void with_type(dtype type, F&& f) {
  switch (type) {
    case dtype::bool_:
      return f(bool{});
    case dtype::uint8:
      return f(uint8_t{});
    case dtype::int8:
      return f(int8_t{});
    case dtype::int16:
      return f(int16_t{});
    case dtype::int32:
      return f(int32_t{});
    case dtype::int64:
      return f(int64_t{});
    case dtype::float16:
      return f(half{});
    case dtype::bfloat16:
      return f(brain{});
    case dtype::float32:
      return f(float{});
    case dtype::float64:
      return f(double{});
  }
}

// Calls move(flat index, strided index) for every element, in row-major order.
template <class F>
void for_each_element(const tensor_type& type, F&& move) {
  const int64_t total = type.numel();
  std::vector<int64_t> index(type.shape.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < total; ++i) {
    move(i, offset);
    for (std::size_t d = index.size(); d-- > 0;) {
      offset += type.strides[d];
      if (++index[d] < type.shape[d]) break;
      offset -= type.strides[d] * type.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

void load_elements(dtype type, const std::byte* source, int64_t first, int64_t count, double* target) {
  with_type(type, [&]<class T>(T) {
    // A bool written by an untrusted process may hold any byte.
    using stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
    const auto* values = reinterpret_cast<const stored*>(source) + first;
    for (int64_t i = 0; i < count; ++i)
      target[i] = to_double(values[i]);
  });
}

void store_elements(dtype type, std::byte* target, int64_t first, int64_t count, const double* source) {
  with_type(type, [&]<class T>(T) {
    auto* values = reinterpret_cast<T*>(target) + first;
    for (int64_t i = 0; i < count; ++i)
      values[i] = from_double<T>(source[i]);
  });
}

void gather(const tensor_type& type, const std::byte* strided, std::byte* flat) {
  if (type.is_contiguous()) {
    std::memcpy(flat, strided, static_cast<std::size_t>(type.bytes()));
    return;
  }
  const int64_t unit = size_of(type.type);
  for_each_element(type, [&](int64_t to, int64_t from) {
    std::memcpy(flat + to * unit, strided + from * unit, static_cast<std::size_t>(unit));
  });
}

void scatter(const tensor_type& type, const std::byte* flat, std::byte* strided) {
  if (type.is_contiguous()) {
    std::memcpy(strided, flat, static_cast<std::size_t>(type.bytes()));
    return;
  }
  const int64_t unit = size_of(type.type);
  for_each_element(type, [&](int64_t from, int64_t to) {
    std::memcpy(strided + to * unit, flat + from * unit, static_cast<std::size_t>(unit));
  });
}

double least_infinite(dtype type) {
  const auto half_step_beyond = [](int largest_exponent, int fraction_bits) {
    return std::ldexp(2 - std::ldexp(1, -fraction_bits - 1), largest_exponent);
  };
  switch (type) {
    case dtype::float16:
      return half_step_beyond(15, 10);
    case dtype::bfloat16:
      return half_step_beyond(127, 7);
    case dtype::float32:
      return half_step_beyond(127, 23);
    default:
      return std::numeric_limits<double>::infinity();
  }
}

void move_elements(dtype type, const element_move& how, int64_t first, std::span<double> values) {
  const double unit = unit_in_last_place(type);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto group = static_cast<uint64_t>((first + static_cast<int64_t>(i)) / how.together);
    values[i] += values[i] * (split_mix(how.seed + split_mix_step * group) & 1 ? unit : -unit);
  }
}

}  // namespace cudal1
