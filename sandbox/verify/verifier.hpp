// Correctness: what to check, and how to judge the comparisons (gates: README.md in this folder). Pure logic; the
// referee compares, and all numbers come from it.
#pragma once

#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// The declared draws, then one of every other kind that applies to the task's tensors: all of them if some floating
// input or weight is drawn from a continuous distribution, none if all are integers, flags or one-hot. `peaked` needs
// rows of more than one element, `offset_rows` more than one row, `small_integers` and `impulses` a task that is linear
// in its parts (integer_arithmetic.hpp). Every seed is 0: the referee chooses.
check_plan plan_check(const task& t, const verification_options& options);

struct judgement {
  outcome result = outcome::correct;
  std::string reason;
  std::vector<gate_result> gates;
  std::string ill_conditioned;  // why the task is; "" if nothing shows it
  bool near_eager = false;      // verdict::near_eager
};
// A fault in `report` gives its outcome; else the first failing gate decides:
//   1 form    dtype, shape, strides, no aliasing, finite/NaN/inf where the reference has them
//   2 close   against float32 eager: all elements within 1e-4; within 1e-2 for half types and wherever eager itself is
//             further than 1e-4 from the exact output or from strict float32 eager; if eager fails even that, gate 3
//             alone decides. The absolute tolerance of other draws than `declared` grows with the output's size, and
//             outputs on `small_integers` must be equal (expected_statistics.hpp). Integers and flags must
//             be equal; if eager's differ from the exact output's (ties), at most as many may differ. With
//             verification.tolerance = kernelbench the declared draws are within 1e-4 (half types 1e-2) of eager alone.
//   3 error   RMS against the float64 output: within max(factor x strict float32 eager's error but at most 0.25,
//             2 x that of eager as shipped, a floor of the type); if the reference is 0 everywhere, absolutely within
//             the floor; if eager itself, as shipped and strict, is off by more than twice the output's size, within
//             16 times its error (the same in gate 4)
//   4 signal  the same over the output's standard deviation, with 0.7 for 0.25, so that a near-constant output cannot
//             be replaced by a constant; skipped if the exact output does not vary
//   5 draws   1 to 4 on the draws other than `declared`
//   A/B/A     repeating the first draw gives the same bits (else `inconsistent`)
// A report that lacks a draw of the plan or an output of the task is never `correct`.
judgement judge(const task& t, const check_plan& plan, const check_report& report, const verification_options& options);

// Judges a report on draws of the timing pool (device_session::check_timing_draws); `gates` is the plan whose
// tolerances were used. A report without draws is `correct`: all had been checked before.
judgement judge_timing_draws(const task& t, const check_plan& gates, const check_report& report,
                             const verification_options& options);

}  // namespace cudal1
