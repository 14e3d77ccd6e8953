#include "sandbox/cpu/referee/core_control.hpp"

#include <chrono>
#include <cstring>

#include "config/base/thread_cores.hpp"

namespace cudal1 {

expected<core_control> core_control::create(const worker_settings& settings) {
  core_control result;
  result.timing_ = {settings.timing_core};
  result.waiting_ = settings.other_cores.empty() ? result.timing_ : settings.other_cores;
  CUDAL1_TRY(result.memory_, map_private(settings.flush_bytes > 0 ? settings.flush_bytes : int64_t{1} << 20));
  std::memset(result.memory_.data(), 1, result.memory_.size());
  CUDAL1_CHECK(move_this_thread(result.waiting_));
  return result;
}

expected<double> core_control::flush() {
  const auto start = std::chrono::steady_clock::now();
  CUDAL1_CHECK(move_this_thread(timing_));
  // Reads only: modified lines would be written back during the timed call, at its expense.
  constexpr std::size_t line = 64;
  for (std::size_t i = 0; i + sizeof(uint64_t) <= memory_.size(); i += line)
    (void)*reinterpret_cast<const volatile uint64_t*>(memory_.data() + i);
  CUDAL1_CHECK(move_this_thread(waiting_));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  return took.count();
}

}  // namespace cudal1
