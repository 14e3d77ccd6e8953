// The text of an operator's step, and its arguments by their names.
#pragma once

#include <algorithm>
#include <string_view>

#include "sandbox/program/program.hpp"

namespace cudal1 {

// The step with this number, which calls an operator, as all steps of a task's own program do.
inline const aten_step& step_of(const checked_program& p, int step) {
  return std::get<aten_step>(p.text.steps[static_cast<std::size_t>(step)]);
}

// Null if it is left out.
inline const json* argument_of(const aten_step& s, std::string_view name) {
  const auto found = std::ranges::find(s.args, name, [](const auto& a) -> std::string_view { return a.first; });
  return found == s.args.end() ? nullptr : &found->second;
}

}  // namespace cudal1
