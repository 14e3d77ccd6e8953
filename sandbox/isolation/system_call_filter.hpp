// The filters of system calls, as BPF programs that need no library to install.
#pragma once

#include <vector>

#include <linux/filter.h>

#include "config/base/error.hpp"

namespace cudal1 {

// An allow-list of about fifty calls; everything else raises SIGSYS. `channel` is the only descriptor that may be
// received from and sent to; signals may go to this very process alone, so this is to be built in it.
expected<std::vector<sock_filter>> runner_filter(int channel);
// Everything but network, new programs, tracing and administration, which fail with EPERM.
expected<std::vector<sock_filter>> referee_filter();
// The same, but programs may be executed (the compiler's own stages).
expected<std::vector<sock_filter>> compiler_filter();

}  // namespace cudal1
