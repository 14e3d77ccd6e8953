// Times as another measurement of the same variant might have had them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// A bootstrap sample in two levels: forks with replacement, and of each so many of its pairs as it has, with
// replacement. The forks are numbered anew, from 0. `random` is the state of the source (SplitMix64).
std::vector<timing_sample> resample(std::span<const timing_sample> samples, uint64_t& random);

// Draws a correct verdict's samples and its score anew: from those of its samples that its score is of, or from all if
// no part of them gives it. `usual_bias`: of a fork, on the device that was measured (estimate_timing). A verdict
// without usable samples is left as it is.
void draw_times(verdict& v, double usual_bias, uint64_t& random);

}  // namespace cudal1
