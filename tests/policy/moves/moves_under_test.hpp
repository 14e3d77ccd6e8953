// Helpers for the tests of all families of moves: schedules from text, which moves are legal, and why one is rejected.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/starting_schedules.hpp"
#include "tests/policy/task_texts.hpp"

namespace cudal1::test {

using ::testing::HasSubstr;
using ::testing::Not;

inline schedule parsed(const std::string& text) {
  auto read = parse_schedule(text);
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

inline bool offers(const task& t, const std::string& name, const lowering_target& target = for_cpu()) {
  const auto moves = legal_moves(t, {}, target);
  return moves && std::any_of(moves->begin(), moves->end(), [&](const move& m) { return m.name == name; });
}

inline std::string refusal(const task& t, const std::string& text) {
  const auto result = lower(t, parsed(text), for_cpu());
  return result ? "accepted" : result.error().message;
}

inline const launch_step& launch_of(const program& p, std::size_t number = 0) {
  for (const auto& s : p.steps) {
    if (const auto* launch = std::get_if<launch_step>(&s); launch != nullptr && number-- == 0) return *launch;
  }
  throw std::runtime_error("no such launch");
}

inline program lowered_for_cuda(const task& t, const std::string& text) {
  auto result = lower(t, parsed(text), for_cuda());
  if (!result) throw std::runtime_error(text + ": " + result.error().message);
  return std::move(result->checked.text);
}

}  // namespace cudal1::test
