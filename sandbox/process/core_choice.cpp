#include "sandbox/process/core_choice.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "config/base/thread_cores.hpp"

namespace cudal1 {

namespace {

constexpr double about_as_fast = 1.1;
constexpr int looks = 3;  // of which the shortest counts: the first is slower, and so is one that is interrupted

}  // namespace

double core_choice::known_work_us() {
  std::array<uint32_t, 1024> values;
  const auto begin = std::chrono::steady_clock::now();
  uint32_t state = 12345;
  for (auto& v : values)
    v = state = state * 1664525U + 1013904223U;
  std::sort(values.begin(), values.end());
  // What is sorted is looked at, so that it is sorted.
  asm volatile("" : : "r"(values.data()) : "memory");
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

expected<double> core_choice::look_at(std::size_t index) {
  CUDAL1_CHECK(move_this_thread({cores_[index]}));
  double us = work_us_();
  for (int i = 1; i < looks; ++i)
    us = std::min(us, work_us_());
  return us;
}

expected<void> core_choice::choose() {
  if (cores_.empty()) return {};
  if (cores_.size() == 1) return move_this_thread(cores_);
  const bool first_time = best_us_ == std::numeric_limits<double>::infinity();
  std::size_t fastest = at_;
  double fastest_us = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < cores_.size(); ++i) {
    const std::size_t index = (at_ + i) % cores_.size();
    CUDAL1_TRY(const double us, look_at(index));
    best_us_ = std::min(best_us_, us);
    if (us < fastest_us) {
      fastest = index;
      fastest_us = us;
    }
    if (!first_time && us <= about_as_fast * best_us_) break;
  }
  at_ = fastest;
  return move_this_thread({cores_[at_]});
}

}  // namespace cudal1
