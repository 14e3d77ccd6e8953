// The schedules that come before any search, made from the phases of the moves.
#pragma once

#include <vector>

#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

// What everybody who knows the field would try first, written as moves: all proofs, the largest row kernels and chains,
// results in place; then the same with one kind of move left out. The fullest comes first; each is a program of its
// own. As long as the task takes: a network of hundreds of steps has dozens of kernels.
std::vector<schedule> whole_schedules(const task& t, const lowering_target& target);
// What comes after those: the fullest with one parameter chosen, and parts of it.
std::vector<schedule> further_schedules(const task& t, const lowering_target& target,
                                        const std::vector<schedule>& whole);

}  // namespace cudal1
