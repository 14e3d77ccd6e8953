// Steps that a rewriting may have, and what it knows of those that it got.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// What is known of the step of that number; an error with the reason where the rewriting does not suit it.
template <class Found>
using step_finder = expected<Found> (*)(const graph&, int number);

// The steps among those that may be such ones that are found, in their order: the others' reasons are not wanted.
template <class Found>
std::vector<int> found_among(const graph& g, bool (*may_be)(const graph_step&), step_finder<Found> find) {
  std::vector<int> out;
  for (const auto& s : g.steps())
    if (may_be(s) && find(g, s.number)) out.push_back(s.number);
  return out;
}

// By number; the first error where one of them is not found.
template <class Found>
expected<std::map<int, Found>> all_found(const graph& g, std::span<const int> steps, step_finder<Found> find) {
  std::map<int, Found> out;
  for (const int number : steps) {
    CUDAL1_TRY(auto each, find(g, number));
    out.emplace(number, std::move(each));
  }
  return out;
}

}  // namespace cudal1
