// The schedules that are tried before any search, made from the phases of the moves.
#pragma once

#include <vector>

#include "policy/search/schedule_builder.hpp"

namespace cudal1 {

// What an expert would try first: all proofs, the largest row kernels and fused chains, results in place; then the same
// with one kind of move left out. The most complete schedule comes first; all have different programs. Their length is
// not limited: a network of hundreds of steps has dozens of kernels.
std::vector<schedule> whole_schedules(const task& t, const lowering_target& target);
// The schedules to try after those: the most complete one (`whole[0]`) with one tuning value chosen, and parts of it.
std::vector<schedule> further_schedules(const task& t, const lowering_target& target,
                                        const std::vector<schedule>& whole);

}  // namespace cudal1
