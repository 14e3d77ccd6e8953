// Saturating arithmetic for sizes: a result that does not fit int64 becomes its largest or smallest value, beyond every
// limit.
#pragma once

#include <cstdint>
#include <limits>

namespace cudal1 {

inline int64_t saturating_multiply(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_mul_overflow(a, b, &result)) return result;
  return (a < 0) == (b < 0) ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

inline int64_t saturating_add(int64_t a, int64_t b) {
  int64_t result = 0;
  if (!__builtin_add_overflow(a, b, &result)) return result;
  return a > 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
}

}  // namespace cudal1
