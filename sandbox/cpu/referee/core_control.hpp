// Where the referee runs, and what the caches of the timing core hold when a call begins.
#pragma once

#include <cstdint>
#include <vector>

#include "sandbox/isolation/shared_memory.hpp"
#include "sandbox/isolation/zygote_messages.hpp"

namespace cudal1 {

class core_control {
 public:
  // Settles on the other cores, where there are some.
  static expected<core_control> create(const worker_settings& settings);

  // Reads settings.flush_bytes on the timing core, whose private caches and the shared one then hold
  // nothing of a draw. The referee is back on its own cores afterwards. Returns milliseconds.
  expected<double> flush();

  // The referee has no core but the timing one: while it waits there awake, the runner does not run.
  bool is_shared() const { return waiting_ == timing_; }

 private:
  std::vector<int> timing_, waiting_;
  mapping memory_;
};

}  // namespace cudal1
