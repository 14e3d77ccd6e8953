// The filters of system calls, as BPF programs that can be installed without a library.
#pragma once

#include <vector>

#include <linux/filter.h>

#include "config/base/error.hpp"

namespace cudal1 {

// An allow-list of about fifty calls; all others raise SIGSYS. `channel` is the only descriptor on which the process
// may send and receive. It may send signals to itself only, so call this in the process to be confined.
expected<std::vector<sock_filter>> runner_filter(int channel);
// Allows everything but network, new programs, tracing and administration, which fail with EPERM.
expected<std::vector<sock_filter>> referee_filter();
// Allows what referee_filter() allows, and to execute programs (the compiler's own stages).
expected<std::vector<sock_filter>> compiler_filter();

}  // namespace cudal1
