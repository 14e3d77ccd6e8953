// Which values of a program are the same whatever its inputs and weights hold, and which equal another value: by rules
// that are sound and incomplete. They explain tasks that a null model passes (verify/null_models.hpp).
#pragma once

#include <map>
#include <set>
#include <string>

#include "sandbox/program/check.hpp"

namespace cudal1 {

struct value_relations {
  std::set<std::string> constant;           // the same on every draw, if all that the program computes is finite
  std::map<std::string, std::string> same;  // a value of the same elements in the same order, for those that have one

  bool is_constant(const std::string& value) const { return constant.contains(value); }
  // The first value that this one equals, itself if there is none.
  const std::string& origin_of(const std::string& value) const;
};

// Rules: a step whose tensor operands are all constant; a softmax or a variance over one element; x - x; a product with
// the number 0; a clamp without room, or to one side of a limit that an earlier clamp keeps. Equal values: views and
// copies, and reductions over dimensions of size 1.
value_relations relations_of(const checked_program& p);

}  // namespace cudal1
