// Which cores this process uses for what: those that are timing are kept free of everything else.
#pragma once

#include <cstdint>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

struct core_layout {
  std::vector<int> all;     // that this process was allowed
  std::vector<int> timing;  // a part of them; empty where there are too few to keep them apart
  std::vector<int> others;  // for the node, its compilers and its learner
};

// `timing_core`: -1 takes the last `threads` cores.
core_layout lay_out_cores(std::vector<int> allowed, int64_t threads, int64_t timing_core);

// Of the calling thread, and of the threads and processes that it starts from then on.
std::vector<int> cores_of_this_thread();
expected<void> move_this_thread(const std::vector<int>& cores);

}  // namespace cudal1
