// Moves that made a task's variants wrong so far: a library's convolution that uses TensorFloat-32 in another order of
// memory, for example, which many schedules share. And moves that ask for an engine that the device's library lacks.
#pragma once

#include <map>
#include <set>
#include <string>

#include "policy/prompt/prompt.hpp"

namespace cudal1 {

class doubtful_moves {
 public:
  // Those that at least three of the prompt's failed variants with wrong answers have, and none of the correct
  // ones; before anything was correct only those that change what computes a step (in the phases preparation and
  // implementation), since every failed variant has the others. Schedules with convolutions in float32 are looked at by
  // themselves: their moves may have been wrong for the lack of it alone.
  explicit doubtful_moves(const prompt& p);
  bool any_in(const schedule& s) const;

 private:
  void note_missing_engines(const prompt& p);

  std::map<bool, std::set<std::string>> names_;  // by whether the schedule has convolutions in float32
  std::set<std::string> without_engine_;         // moves as text, behind those of preparation, which number the steps
};

}  // namespace cudal1
