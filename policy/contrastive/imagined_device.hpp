// Devices on which a recorded task's candidates take other times than on the one that measured them, so that a model
// learns to take from exemplars what it cannot know of a device.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/contrastive/candidate_set.hpp"

namespace cudal1 {

// The logarithm of each score is shrunk to a random share, the same for all, and moved by a normal number for the
// candidate's implementation and one for each of its decisions. Seed 0: the device that measured the task.
class imagined_device {
 public:
  imagined_device() = default;
  imagined_device(const candidate_set& all, uint64_t seed);

  uint64_t seed() const { return seed_; }
  bool is_imagined() const { return seed_ != 0; }
  // The score there of what has this one on the device that measured it; 0 stays 0.
  double score(std::size_t candidate, double measured) const;

 private:
  uint64_t seed_ = 0;
  double share_ = 1;
  std::vector<double> moved_;  // by candidate
};

}  // namespace cudal1
