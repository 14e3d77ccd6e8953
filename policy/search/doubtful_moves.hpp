// Moves that made a task's variants wrong so far: a library's convolution that uses TensorFloat-32 in another order of
// memory, for example, which many schedules share. And moves that ask for an engine that the device's library lacks.
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
  void note_missing_engines(const prompt& p);

  std::set<std::string> names_;
  std::set<std::string> without_engine_;  // moves as text, behind those of preparation, which number the steps
};

}  // namespace cudal1
