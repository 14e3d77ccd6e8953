// Correctness: what to check, and what the answers mean (MEASURING.md, gates 1, 2, 3 and 5). Plain logic; the referee
// does the comparing and the numbers come from it alone.
#pragma once

#include <string>
#include <vector>

#include "config/configuration.hpp"
#include "sandbox/evaluation.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// The declared draws, then one of every other distribution that makes sense for the task's tensors.
check_plan plan_check(const task& t, const verification_options& options);

struct judgement {
  outcome result = outcome::correct;
  std::string reason;
  std::vector<gate_result> gates;
};
// `report` with a fault gives that outcome; else the first failing gate decides.
judgement judge(const task& t, const check_plan& plan, const check_report& report, const verification_options& options);

}  // namespace cudal1
