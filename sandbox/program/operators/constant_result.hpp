// Which values of a program are the same whatever its inputs and weights hold, and which equal another value: by rules
// that are sound and incomplete. They explain tasks that a null model passes (verify/null_models.hpp).
#pragma once

#include <map>
#include <set>
#include <string>

#include "sandbox/program/task.hpp"

namespace cudal1 {

struct value_relations {
  std::set<std::string> constant;           // the same on every draw, whose inputs and weights are finite
  std::map<std::string, std::string> same;  // a value of the same elements in the same order, for those that have one

  bool is_constant(const std::string& value) const { return constant.contains(value); }
  // The first value that this one equals, itself if there is none.
  const std::string& origin_of(const std::string& value) const;
};

// Constant are: a step whose tensor operands all are; what is NaN everywhere; and where nothing before it divides by
// zero or has no value (number_facts.hpp), a softmax over one element, x - x, a product with the number 0, and what is
// clamped to one side of a limit that its range is beyond. Equal values: views and copies, reductions over dimensions
// of size 1, dropout in evaluation, numbers that change nothing, and clamps (and operators that leave a range as it is)
// of what is in the range already.
value_relations relations_of(const task& t);

}  // namespace cudal1
