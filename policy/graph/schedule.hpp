// Schedules: lists of moves. A move is one named, parameterised, legality-checked transformation of a program.
// Text form: `fuse(steps=2..5); block(group=0, threads=256); items(group=0, elements=4)`.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct move {
  std::string name;
  std::vector<std::pair<std::string, std::string>> parameters;  // in the move's fixed order
  bool operator==(const move&) const = default;
};

struct schedule {
  std::vector<move> moves;
  bool operator==(const schedule&) const = default;
};

std::string print_schedule(const schedule& s);
expected<schedule> parse_schedule(std::string_view text);

}  // namespace cudal1
