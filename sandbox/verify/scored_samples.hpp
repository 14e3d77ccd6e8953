// Which of a verdict's raw samples its score is of.
#pragma once

#include <span>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// A score is that of all samples, of the last forks (a confirmation counts fresh pairs only), or of the first ones (a
// screening whose confirmation found no new best). Empty if no such part gives the score by its clock, or a time is not
// positive.
std::span<const timing_sample> samples_of_score(std::span<const timing_sample> all, const measured_score& of);

}  // namespace cudal1
