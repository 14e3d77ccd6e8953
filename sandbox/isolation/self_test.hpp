// Tries to escape: each attempt in a child of its own, confined like a runner.
#pragma once

#include <vector>

#include "sandbox/isolation/confine.hpp"

namespace cudal1 {

// One item for each step of a runner's confinement, and one required item for each escape: in force where the attempt
// failed. To be called in a process with one thread; takes some 2 ms an attempt.
expected<std::vector<confinement_item>> test_confinement();

}  // namespace cudal1
