// Programs that are right in a way that a naive check would refuse.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1::testing_honest {

struct surprise {
  const char* name;
  task of;
  std::string program;
};
// `profile`: "cpu" or "cuda", of the tasks.
std::vector<surprise> surprises(const std::string& profile);
// Tensor maps, barriers of all blocks, launches that overlap, and library calls that only GPUs have.
std::vector<surprise> expert_programs(const std::string& profile);

}  // namespace cudal1::testing_honest
