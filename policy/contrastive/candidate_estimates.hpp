// Estimated times of a task's candidates (policy/estimate), and what the measured ones say of the others.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "config/device_data.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "policy/contrastive/candidate_writer.hpp"

namespace cudal1 {

class candidate_estimates {
 public:
  candidate_estimates() = default;  // none
  // None where the target's kernels do not describe their work (`cpu`). Lowers each candidate: about 0.3 ms.
  candidate_estimates(const task& t, const candidate_set& candidates, const lowering_target& target,
                      const device_data& gpu);

  bool empty() const { return log_speed_.empty(); }
  // `weight` times the logarithm of each candidate's speed relative to the fastest: as estimated, corrected by a
  // Gaussian process on how far measured scores are from their estimates. Two candidates are the more alike in that the
  // fewer moves they differ by. What is uncertain counts as faster by half a deviation. Failed ones (score 0) say
  // nothing. Empty where nothing is estimated or the weight is 0.
  candidate_prior prior(double weight, std::span<const measured_candidate> measured) const;

 private:
  std::size_t size() const { return log_speed_.size(); }

  std::vector<double> log_speed_;   // of the program, or of the slowest one where a schedule is not legal any more
  std::vector<double> covariance_;  // [candidates][candidates], before anything is measured
};

}  // namespace cudal1
