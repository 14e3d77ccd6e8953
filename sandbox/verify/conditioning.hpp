// Whether a task has one right answer within the tolerances: a network whose rounding errors grow from layer to layer
// gives another result with each algorithm or order of sums, and PyTorch's own is one of many.
#pragma once

#include <string>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// Why the task is ill-conditioned, or "" if the report does not show that it is: on a declared draw, a float32 output
// of the task's own program, as PyTorch ships it or without TensorFloat-32, is further from the exact one than
// KernelBench's tolerance of 1e-2, element by element or as a whole (root mean square). Outputs of half types are left
// out, since their own rounding is of that size, and so are those that are nothing but rounding errors.
std::string why_ill_conditioned(const task& t, const check_report& report);

}  // namespace cudal1
