// Read-only data of loaded libraries, present in memory before a clock runs.
//
// A vector load under an all-zero mask reads nothing, so it raises no page fault. Where its page is absent from the
// page table the processor finds that out by an assist of some 350 cycles, and since no fault comes, the page stays
// absent: the next load takes as long. A fork does not copy the page table of a file's mapping, so after each fork most
// constants are absent: on an AMD EPYC a sigmoid of a million floats, whose Sleef function ends with such a load of a
// constant, took 8.0 ms in a forked process and 0.4 ms in one that had read the constant once.
//
// That assist also comes where a page is present, but not marked as accessed: a load that reads nothing does not mark
// it, and a fork takes these marks off its child's pages. A softmax of two million floats took 4.5 ms so, and 2.0 ms in
// a process that had read the page.
#pragma once

#include "config/base/error.hpp"

namespace cudal1 {

// Puts copies into the place of the constants of all libraries that are loaded: private memory, in large pages where
// the system has them, whose page table a fork does copy. Some 80 ms for LibTorch's 40 MB. For a process with one
// thread.
expected<void> keep_constants_over_forks();

// In a child of that process: reads each page of the copies once. About a millisecond.
void read_kept_constants();

}  // namespace cudal1
