// A kernel's counters (store/counter_profile.hpp) in words, for prompts and for people.
#pragma once

#include <string>
#include <vector>

#include "store/counter_profile.hpp"

namespace cudal1 {

// "occupancy 48% of 50% (limited by registers), DRAM 82%, L2 60%, tensor cores 0%, FMA 12% of peak, 15.5 waves": what
// was not read is left out, so that variants compare line by line.
std::string usage_text(const kernel_counters& k);
// "data from global or local memory 41%, a barrier 20%"; "" if no stall was read.
std::string stalls_text(const kernel_counters& k);
// For an exemplar: a line on what its longest kernel uses, and one on what that waits for, with what to try; empty
// without kernels.
std::vector<std::string> counter_lines(const counter_profile& p);

}  // namespace cudal1
