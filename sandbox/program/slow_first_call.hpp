// Programs whose first call in a process takes seconds, because libraries compile kernels for it.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>

#include "sandbox/program/check.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

// For one step; 3.3 s was the most that one took on an H200.
inline constexpr std::chrono::milliseconds compiling_limit{5000};

// The number of steps for which a library may compile kernels.
inline int64_t steps_compiled_at_first(const checked_program& p) {
  const auto compiles = [](const operator_call& call) {
    return call.op != nullptr && call.op->record->traits.compiles_at_first;
  };
  return std::ranges::count_if(p.setup_calls, compiles) + std::ranges::count_if(p.calls, compiles);
}

// The same of a program's text, in which operators are quoted.
inline int64_t steps_compiled_at_first(std::string_view text) {
  int64_t steps = 0;
  for (const auto& r : operator_records()) {
    if (!r.traits.compiles_at_first) continue;
    const std::string quoted = '"' + std::string(r.name()) + '"';
    for (auto at = text.find(quoted); at != std::string_view::npos; at = text.find(quoted, at + quoted.size()))
      ++steps;
  }
  return steps;
}

}  // namespace cudal1
