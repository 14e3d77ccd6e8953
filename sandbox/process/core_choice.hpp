// Which of a few cores to time on. On a machine that is shared, a core is 1.5 times slower and more while somebody else
// uses the other hyperthread of it, for tenths of a second to seconds; each core by itself.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

class core_choice {
 public:
  // `work_us` takes the same work each time on the core of the calling thread: how long that took.
  explicit core_choice(std::vector<int> cores, std::function<double()> work_us = known_work_us)
      : cores_(std::move(cores)), work_us_(std::move(work_us)) {}

  // Moves the calling thread to the first of them, from the one that it took last on, that is about as fast as any of
  // them ever was; where none is, to the fastest. Takes some twenty microseconds for each core that is looked at.
  expected<void> choose();

  // Some microseconds of sorting: many instructions at once, so that a second hyperthread is felt.
  static double known_work_us();

 private:
  expected<double> look_at(std::size_t index);

  std::vector<int> cores_;
  std::function<double()> work_us_;
  std::size_t at_ = 0;
  double best_us_ = std::numeric_limits<double>::infinity();  // of any core so far
};

}  // namespace cudal1
