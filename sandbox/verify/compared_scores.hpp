// Scores of two variants of a task, measured when the host was faster or slower.
//
// Where a call takes tens of microseconds, most of the reference's time is the host's, and what a host takes for the
// same calls varies by factors of two to four within minutes. A variant that is one CUDA graph varies less, so its
// score is the higher the slower the host is: measured again, the score of one program deviates by 5 to 9%, where its
// time on the device deviates by 1%. At one pace of the host it deviates by 1 to 4%. Scores stay what was measured;
// what is compared, to find the best, is compared at one pace. Pure functions.
#pragma once

#include <span>
#include <vector>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// The score that `m` would have had when `now` was measured: with the time that the reference took then, on the device
// and on the host, and the variant's times moved with them. m.score where it is by device times, these are missing (on
// `cpu`) or a call took less than its device time. Both are of one task, measured on one device.
double score_at_pace_of(const measured_score& m, const measured_score& now);

// Whether a's score is above that of `b` at a's pace.
bool is_faster(const measured_score& a, const measured_score& b);

// The scores of variants of one task on one device at the pace in the middle of those that have device times; the
// others keep theirs.
std::vector<double> scores_at_one_pace(std::span<const measured_score> all);

}  // namespace cudal1
