// Where the referee runs, and what happens on the timing core right before a call.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

class core_control {
 public:
  // Moves the calling thread to the other cores, if there are any.
  static expected<core_control> create(const worker_settings& settings);
  core_control(core_control&&) noexcept;
  core_control& operator=(core_control&&) noexcept;
  ~core_control();

  // On a thread of the timing core: `before`, then settings.flush_bytes are read, so that the core's private caches and
  // the shared one hold nothing of a draw, then `start`. That core is awake when `start` wakes a process that belongs
  // there. Returns as soon as `start` may run, with the milliseconds of the flush; the caller is awake on its own core.
  expected<double> flush(const std::function<expected<void>()>& before, std::function<void()> start);
  // The highest bandwidth of a flush so far, times the threads of a call.
  double read_gb_per_s() const { return threads_ * read_gb_per_s_; }

  // True if the referee has no core but the timing core: while it busy-waits there, the runner cannot run.
  bool is_shared() const { return waiting_ == timing_; }

 private:
  core_control() = default;
  class timing_thread;

  std::vector<int> timing_, waiting_;
  int threads_ = 1;
  std::size_t flush_bytes_ = 0;
  double read_gb_per_s_ = 0;
  std::unique_ptr<timing_thread> thread_;
};

}  // namespace cudal1
