// Wall-clock time, for the timestamps of records.
#pragma once

#include <chrono>
#include <cstdint>

namespace cudal1 {

inline int64_t unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

}  // namespace cudal1
