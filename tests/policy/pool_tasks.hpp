// Pools, and convolutions of single channels, as kernels of our own: tasks, each with the schedule that makes one
// kernel of it.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/task.hpp"

namespace cudal1::test {

struct pool_case {
  task what;
  std::string schedule;
};

// One pool of "x", which is of that shape and type; `steps` may read "z", of the shape `other`, and the weights "w",
// "b", "m" and "s" of so many channels; or one convolution of it with the weights "k", of the shape `other`, and the
// bias "c".
struct pool_text {
  const char *name, *shape, *steps;
  const char* other = "1";
  const char* schedule = "row_kernel(steps=0)";
  const char* channels = "1";
  const char* outputs = R"(["y"])";
};
task pool_task(const pool_text& text, const std::string& type = "float32");

std::vector<pool_case> pool_cases(const std::string& type = "float32");

}  // namespace cudal1::test
