// What else used the core on which calls were timed, as a sentence for users.
#pragma once

#include <string>

#include "sandbox/evaluation_records.hpp"

namespace cudal1 {

// "core 1, on which it was timed, was used by other processes for 38% of the time (cc1plus, process 4711: 31%)"; "" if
// others used less of it than what the system's clocks tell apart.
std::string describe(const core_sharing& s);
// Sums up two times of timing of one variant.
void add(core_sharing& all, const core_sharing& one);

}  // namespace cudal1
