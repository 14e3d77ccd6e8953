// Which steps of a program make the memory of its outputs.
#pragma once

#include <set>
#include <string>

#include "sandbox/program/check.hpp"

namespace cudal1 {

class output_steps {
 public:
  explicit output_steps(const checked_program& p);
  // Whether an output, or what an output is a view of, gets its memory in this step.
  bool contains(const step& s) const;

 private:
  std::set<std::string> roots_;  // the values whose memory the outputs are in
};

}  // namespace cudal1
