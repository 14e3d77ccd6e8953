// What language models are made of, as tasks in float32, float16 or bfloat16.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1::test {

struct pattern_task {
  task what;
  int kernels = 1;  // at most, in the first whole schedule
  // Operators that stay library calls there; views are always allowed.
  std::vector<std::string> library = {};
};

// `type`: of the activations; weights of norms are float32 in some.
std::vector<pattern_task> pattern_tasks(const std::string& type);

}  // namespace cudal1::test
