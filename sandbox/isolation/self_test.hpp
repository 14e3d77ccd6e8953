// Escape attempts, each in a separate child that is confined like a runner.
#pragma once

#include <vector>

#include "sandbox/isolation/confine.hpp"

namespace cudal1 {

// One item for each step of a runner's confinement, and one required item for each escape attempt: in force if the
// attempt failed. Call it in a process with one thread; takes about 2 ms per attempt.
expected<std::vector<confinement_item>> test_confinement();

}  // namespace cudal1
