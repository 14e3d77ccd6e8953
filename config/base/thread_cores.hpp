// The cores that a thread may run on.
#pragma once

#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// Of the calling thread, and of the threads and processes that it starts from then on. Ascending; empty where the
// system does not say.
std::vector<int> cores_of_this_thread();
// errc::infrastructure where the system does not let it.
expected<void> move_this_thread(const std::vector<int>& cores);

}  // namespace cudal1
