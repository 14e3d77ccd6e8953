// One text of kernels for every batch size of a range, of a schedule: the schedule is applied to the task's program at
// several sizes, and where the kernels' texts differ in integers alone that are linear in the batch, or a linear number
// divided and rounded down, these become functions of a parameter.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "policy/moves/batch_numbers.hpp"
#include "policy/moves/lowering.hpp"
#include "sandbox/program/task.hpp"

namespace cudal1 {

// low <= batch <= high, multiples of `multiple` alone.
struct batch_range {
  int64_t low = 1, high = 1, multiple = 1;
};

struct batch_family {
  batch_range range;
  int64_t tuned = 0;           // the task's own batch size
  std::string why_multiples;   // what other sizes lack; "" where multiple is 1
  std::vector<int64_t> sizes;  // of the members; they need not lie in the range
  std::vector<checked_program> references,
      members;  // by size: the task's program, and the variant; all with one source
};

// errc::unsupported with the move that has no such text, and why: in "move 2 (fuse(steps=1..3)): ...".
expected<batch_family> batch_family_of(const task& t, const schedule& s, const lowering_target& target,
                                       batch_range wanted);

}  // namespace cudal1
