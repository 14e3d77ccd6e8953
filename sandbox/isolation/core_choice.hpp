// Which of a few cores to time on. On a machine that is shared, a core is 1.5 times slower and more while somebody else
// uses the other hyperthread of it, for tenths of a second to seconds; each core by itself. (pytorch_calls.py does the
// same for PyTorch's calls: Cores.)
#pragma once

#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

class core_choice {
 public:
  // `work_us` does the same work each time on the core of the calling thread: how long that took.
  explicit core_choice(std::vector<int> cores, std::function<double()> work_us = known_work_us)
      : cores_(std::move(cores)), work_us_(std::move(work_us)) {}

  // Moves the calling thread to the first of them, from the one that it took last on, that is about as fast as the
  // fastest were lately; where none is, to the fastest. Now and then it looks at all. Takes some thirty microseconds
  // for each core that is looked at. A core that may not be used is left out from then on; an error where none is left.
  expected<void> choose();

  // Some ten microseconds of arithmetic and loads, many at once, so that a second hyperthread is felt, and without
  // branches, so that it matters little what the core did before.
  static double known_work_us();

 private:
  double look();

  std::vector<int> cores_;  // the one that was chosen last comes first
  std::function<double()> work_us_;
  std::deque<double> looks_us_;  // the last ones, at any core
  int choices_ = 0;              // since all were looked at
};

}  // namespace cudal1
