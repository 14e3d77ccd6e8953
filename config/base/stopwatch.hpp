// Time since it was made.
#pragma once

#include <chrono>

namespace cudal1 {

class stopwatch {
 public:
  double ms() const { return std::chrono::duration<double, std::milli>(clock::now() - began_).count(); }

 private:
  using clock = std::chrono::steady_clock;
  clock::time_point began_ = clock::now();
};

}  // namespace cudal1
