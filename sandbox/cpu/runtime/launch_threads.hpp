// The operating-system threads that run the blocks of a launch.
#pragma once

#include <cstdint>
#include <functional>

#include "config/base/error.hpp"

namespace cudal1 {

// Makes sure that launches can use `threads` threads: the caller's and threads - 1 others, which live until the process
// ends. Call it in the process that launches (threads do not survive a fork), before confinement forbids new threads.
// A later call that wants no more threads has no effect. Errors: infrastructure.
expected<void> prepare_launch_threads(int threads);
// How many threads launches can use; 1 before any call.
int prepared_launch_threads();

// Splits [0, count) into contiguous ranges, one for each of at most `threads` threads (and no more than prepared), and
// returns when run(first, last, worker) has returned for all of them; worker is below `threads`, and 0 is the caller.
// One call at a time.
void run_on_launch_threads(int64_t count, int threads, const std::function<void(int64_t, int64_t, int)>& run);

}  // namespace cudal1
