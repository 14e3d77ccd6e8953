// What rewritings of a task's program share.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "sandbox/program/task.hpp"

namespace cudal1 {

// The task with another program; errors as check_program has them: more steps than a program may have, for example.
inline expected<std::shared_ptr<const task>> with_program(const task& t, program changed) {
  CUDAL1_TRY(checked_program checked, check_program(std::move(changed)));
  auto out = std::make_shared<task>(t);
  out->reference = std::move(checked);
  return out;
}

// `name`, with a number behind it where it is taken.
template <class Taken>
std::string fresh_name(const std::string& name, Taken&& is_taken) {
  std::string out = name;
  for (int n = 2; is_taken(out); ++n)
    out = name + std::to_string(n);
  return out;
}

}  // namespace cudal1
