// What kernels do when they cannot go on, and where their runtime functions find the block that they run in.
#pragma once

#include <string>

namespace cudal1 {

// Ends the process: a kernel's fault (a deadlock, a launch that cannot be) is the end of the runner that holds it. The
// message goes to standard error first, in one write, with the words "kernel fault: " before it.
[[noreturn]] void kernel_fault(const std::string& message);

// Called with the message before the process ends, on whichever thread the kernel runs: a runner sends it to its
// parent. One handler a process; null for none.
void set_kernel_fault_handler(void (*handler)(const char* message));

}  // namespace cudal1
