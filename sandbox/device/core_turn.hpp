// Turns on a core for timed calls that sessions of several nodes of one machine share, so that none is disturbed by the
// others: who waits goes first. A turn ends with its process, however that ends.
#pragma once

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"
#include "sandbox/device/machine_claims.hpp"

namespace cudal1 {

// A session's turns on the timing core; not thread-safe.
class core_turn {
 public:
  // errc::io_error.
  static expected<core_turn> open(const machine_claims& machine, int core);

  // Waits for the turn, which this session may have already, and returns how long that took, in milliseconds.
  // errc::cancelled as soon as `cancel` is readable.
  expected<double> take(int cancel);
  void give_back();

 private:
  core_turn() = default;
  unique_fd queue_, turn_;
  bool is_ours_ = false;
};

}  // namespace cudal1
