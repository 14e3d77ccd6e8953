// Why a task has nothing to search, for its users.
#pragma once

#include <string>

#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

// "no move applies: kernels do not read bfloat16 yet (12 steps), ...", or "no move but graph applies: ..."; "" if some
// move other than one of execution (a graph, lanes) is legal. The reasons are those for which a step is in no kernel of
// its own, the most frequent first.
std::string why_no_moves(const task& t, const lowering_target& target);

// That, and what a search does then; the schedules of a task that has a few only; "" if there is more to search.
std::string what_little_to_search(const task& t, const lowering_target& target);

}  // namespace cudal1
