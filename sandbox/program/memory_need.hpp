// How much memory a program's tensors need at a time. It follows from their types and lifetimes, so it is known before
// anything runs. A lower bound: copies and workspaces within operators, guards and alignment are not counted.
#pragma once

#include <cstdint>
#include <string>

#include "sandbox/program/check.hpp"

namespace cudal1 {

struct memory_need {
  int64_t bytes = 0;  // the most at a time: results of setup, and what the steps of a call make
  std::string where;  // the step during which it is needed: "step 2 (aten::conv3d)"; "" if nothing is made
};

// As the interpreter runs it: memory is released after the last step that uses it or a view of it; outputs and results
// of setup that steps use are kept. Inputs and weights are not counted: they are not the program's memory.
memory_need memory_need_of(const checked_program& p);

// "4.3 GiB", "512 MiB".
std::string memory_text(int64_t bytes);

// Why a program cannot run with that much memory for its tensors; "" if it may. `bytes` 0: there is no limit.
std::string why_too_large(const checked_program& p, int64_t bytes);

}  // namespace cudal1
