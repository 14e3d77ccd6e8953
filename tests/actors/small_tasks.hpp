// Tasks and programs for tests of evaluations.
#pragma once

#include <string>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// Tasks of well under a millisecond.
task relu_chain_task();
task diagonal_task();
// A program for relu_chain_task() with `body` as the value of y[i]; x is the input, i the element.
std::string pointwise_program(const std::string& body);

}  // namespace cudal1
