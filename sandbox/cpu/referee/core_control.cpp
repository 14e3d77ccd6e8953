#include "sandbox/cpu/referee/core_control.hpp"

#include <algorithm>
#include <cstring>
#include <semaphore>
#include <thread>

#include "config/base/stopwatch.hpp"
#include "config/base/thread_cores.hpp"

namespace cudal1 {

// One request at a time.
class core_control::timing_thread {
 public:
  timing_thread(std::vector<int> cores, mapping memory) : cores_(std::move(cores)), memory_(std::move(memory)) {}
  ~timing_thread() {
    ending_ = true;
    wanted_.release();
  }
  timing_thread(const timing_thread&) = delete;
  timing_thread& operator=(const timing_thread&) = delete;

  expected<double> flush(const std::function<expected<void>()>& before, std::function<void()> start) {
    // With the first request: what confines this process by then, confines the thread, too.
    if (!thread_.joinable()) thread_ = std::jthread([this] { serve(); });
    before_ = &before;
    start_ = std::move(start);
    wanted_.release();
    flushed_.acquire();
    if (!result_) return result_;
    go_.release();
    return result_;
  }

 private:
  void serve() {
    const auto moved = move_this_thread(cores_);
    for (;;) {
      wanted_.acquire();
      if (ending_) return;
      result_ = moved ? work() : tl::unexpected<error>(moved.error());
      // The caller may begin the next request as soon as `start` has run.
      const std::function<void()> start = std::move(start_);
      const bool goes = result_.has_value();
      flushed_.release();
      if (!goes) continue;
      go_.acquire();
      start();
    }
  }

  expected<double> work() {
    CUDAL1_CHECK((*before_)());
    const stopwatch took;
    // Reads only: lines that it wrote would have to go back to memory during the timed call, at that call's expense.
    constexpr std::size_t line = 64;
    for (std::size_t i = 0; i + sizeof(uint64_t) <= memory_.size(); i += line)
      (void)*reinterpret_cast<const volatile uint64_t*>(memory_.data() + i);
    return took.ms();
  }

  std::vector<int> cores_;
  mapping memory_;
  const std::function<expected<void>()>* before_ = nullptr;
  std::function<void()> start_;
  expected<double> result_;
  bool ending_ = false;
  std::binary_semaphore wanted_{0}, flushed_{0}, go_{0};
  std::jthread thread_;
};

core_control::core_control(core_control&&) noexcept = default;
core_control& core_control::operator=(core_control&&) noexcept = default;
core_control::~core_control() = default;

expected<core_control> core_control::create(const worker_settings& settings) {
  core_control result;
  result.timing_ = {settings.timing_core};
  result.threads_ = std::max(settings.threads, 1);
  result.waiting_ = settings.other_cores.empty() ? result.timing_ : settings.other_cores;
  CUDAL1_TRY(mapping memory, map_private(settings.flush_bytes > 0 ? settings.flush_bytes : int64_t{1} << 20));
  std::memset(memory.data(), 1, memory.size());
  result.flush_bytes_ = memory.size();
  result.thread_ = std::make_unique<timing_thread>(result.timing_, std::move(memory));
  CUDAL1_CHECK(move_this_thread(result.waiting_));
  return result;
}

expected<double> core_control::flush(const std::function<expected<void>()>& before, std::function<void()> start) {
  CUDAL1_TRY(const double ms, thread_->flush(before, std::move(start)));
  if (ms > 0) read_gb_per_s_ = std::max(read_gb_per_s_, static_cast<double>(flush_bytes_) / (ms * 1e6));
  return ms;
}

}  // namespace cudal1
