// Points in time until which something is waited for.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cudal1 {

using deadline = std::chrono::steady_clock::time_point;

inline deadline deadline_in(std::chrono::milliseconds span) {
  return std::chrono::steady_clock::now() + span;
}

// For poll(): rounded up, so that a caller does not spin before the deadline; 0 after it.
inline int milliseconds_until(deadline when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 1 << 30));
}

}  // namespace cudal1
