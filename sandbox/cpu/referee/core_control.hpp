// Keeps the referee off the timing core and flushes that core's caches before a timed call.
#pragma once

#include <cstdint>
#include <vector>

#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

class core_control {
 public:
  // Moves the calling thread to the other cores, if there are any.
  static expected<core_control> create(const worker_settings& settings);

  // Reads settings.flush_bytes on the timing core, so that neither its private caches nor the shared one hold data of a
  // draw. The referee is back on its own cores afterwards. Returns milliseconds.
  expected<double> flush();

  // True if the referee has no core but the timing core: while it busy-waits there, the runner cannot run.
  bool is_shared() const { return waiting_ == timing_; }

 private:
  std::vector<int> timing_, waiting_;
  mapping memory_;
};

}  // namespace cudal1
