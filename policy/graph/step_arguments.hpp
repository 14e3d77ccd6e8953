// The arguments of a step's text by their names.
#pragma once

#include <algorithm>
#include <string_view>

#include "sandbox/program/program.hpp"

namespace cudal1 {

// Null if it is left out.
inline const json* argument_of(const aten_step& s, std::string_view name) {
  const auto found = std::ranges::find(s.args, name, [](const auto& a) -> std::string_view { return a.first; });
  return found == s.args.end() ? nullptr : &found->second;
}

}  // namespace cudal1
