// Guards of loop kernels: `int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n)`. If such a guard holds for a
// whole row of threads, it is omitted, and the loop over the row vectorises without masks.
#pragma once

#include <string>
#include <vector>

#include "sandbox/cpu/compiler/source_items.hpp"

namespace cudal1 {

struct source_replacement {
  std::size_t first = 0, last = 0;  // tokens, half open
  std::string text;
};

struct guard_plan {
  std::vector<source_replacement> replacements;
  std::string index, index_type;  // of the variable that holds the thread's global index along x
  std::string condition;  // over `index` and the kernel's parameters; once false in a row, it stays false; "" for none
};

// Only provably safe guards: the index is declared once in that form and never changed, and its bounds are integer
// literals or parameters that never change.
guard_plan plan_guards(const std::vector<token>& tokens, const source_item& kernel);

}  // namespace cudal1
