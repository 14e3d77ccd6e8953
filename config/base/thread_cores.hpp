// The cores that a thread may run on.
#pragma once

#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// The cores that the calling thread may use, ascending; empty if the system call fails.
std::vector<int> cores_of_this_thread();
// Moves the calling thread, and with it the threads and processes that it starts from then on. errc::infrastructure if
// the system refuses.
expected<void> move_this_thread(const std::vector<int>& cores);

}  // namespace cudal1
