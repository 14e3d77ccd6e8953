// Ends the process when a kernel cannot continue.
#pragma once

#include <string>

namespace cudal1 {

// Ends the process: a kernel's fault (a deadlock, an impossible launch) ends the runner that holds it. First the
// message goes to standard error, in one write, with the prefix "kernel fault: ".
[[noreturn]] void kernel_fault(const std::string& message);

}  // namespace cudal1
