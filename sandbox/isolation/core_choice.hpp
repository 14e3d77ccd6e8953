// Chooses one of a few cores for timed calls. On a shared machine, a core is 1.5 times slower or more while another
// process uses its other hyperthread, for tenths of a second to seconds, independently of the other cores. (Cores in
// pytorch_calls.py does the same for PyTorch's calls.)
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

class core_choice {
 public:
  // `work_us` runs a fixed benchmark on the core of the calling thread and returns its duration.
  explicit core_choice(std::vector<int> cores, std::function<double()> work_us = benchmark_us)
      : cores_(std::move(cores)), work_us_(std::move(work_us)) {}

  // Moves the calling thread to the first core, beginning with the last choice, that is within 10% of the fastest
  // recent measurements; if there is none, to the fastest. Every 16th call measures all cores. Takes about 30 us for
  // each core measured. A core that may not be used is dropped; an error if none is left.
  expected<void> choose();

  // The default benchmark: about 10 us of arithmetic and loads with much instruction-level parallelism, so that another
  // hyperthread slows it down, and without branches, so that the core's earlier work has little effect.
  static double benchmark_us();

 private:
  double look();

  std::vector<int> cores_;  // the last choice comes first
  std::function<double()> work_us_;
  std::deque<double> measured_us_;  // recent measurements, of all cores
  int choices_ = 0;                 // since all cores were measured
};

}  // namespace cudal1
