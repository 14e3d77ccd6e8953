// Correctness: what to check, and what the comparisons mean (gates: README.md beside this). Plain logic; the referee
// does the comparing and the numbers come from it alone.
#pragma once

#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/evaluation.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// The declared draws, then one of every other distribution that makes sense for the task's tensors: all of them where
// some floating input or weight is drawn from a continuous distribution, none where all are integers, flags or one-hot.
// `peaked` needs rows of more than one element, `offset_rows` more than one row; `outliers` comes twice. Every seed is
// 0: the referee chooses.
check_plan plan_check(const task& t, const verification_options& options);

struct judgement {
  outcome result = outcome::correct;
  std::string reason;
  std::vector<gate_result> gates;
};
// `report` with a fault gives that outcome; else the first failing gate decides:
//   1 form    dtype, shape, strides, no aliasing, finite/NaN/inf where the reference has them
//   2 close   against float32 eager: all elements within 1e-4; within 1e-2 for half types and wherever eager itself is
//             further than 1e-4 from the exact output or from strict float32 eager; where eager fails even that, gate 3
//             decides alone. Integers and flags must be equal; where eager's own differ from the exact output's (ties),
//             no more of them may differ.
//   3 error   RMS against the float64 output: within max(factor x strict float32 eager's error, 2 x shipped eager's,
//             a floor of the type); a reference that is 0 everywhere must be met to the floor absolutely
//   4 signal  the same over the output's standard deviation, so that a near-constant output is no way out; left out
//             where the exact output does not vary
//   5 draws   1 to 4 on the draws that are not the task's own
//   A/B/A     the first draw again gives the same bits (else `inconsistent`)
// A report that lacks a draw of the plan or an output of the task is never `correct`.
judgement judge(const task& t, const check_plan& plan, const check_report& report, const verification_options& options);

// The same of a report on draws of the timing pool, whichever there were (device_session::check_timing_draws); `gates`
// is the plan whose tolerances they were compared to. A report without draws is `correct`: there were none left.
judgement judge_timing_draws(const task& t, const check_plan& gates, const check_report& report,
                             const verification_options& options);

}  // namespace cudal1
