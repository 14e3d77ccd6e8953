// Moves that made a task's variants wrong so far: a library's convolution that uses TensorFloat-32 in another order of
// memory, for example, which many schedules share.
#pragma once

#include <set>
#include <string>

#include "policy/prompt/prompt.hpp"

namespace cudal1 {

class doubtful_moves {
 public:
  // Those that at least three of the prompt's failed variants with wrong answers have, and none of the correct
  // ones; none before anything was correct.
  explicit doubtful_moves(const prompt& p);
  bool any_in(const schedule& s) const;

 private:
  std::set<std::string> names_;
};

}  // namespace cudal1
