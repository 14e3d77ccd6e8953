// A Python that is confined as a compiler is: it reads everything, writes to folders that are named, and has no
// network.
#pragma once

#include <string>
#include <vector>

#include "sandbox/cpu/compiler/compiler_process.hpp"

namespace cudal1::cli {

// For run_child(). `folder`: its home and the place of its temporary files. The limits of time are the caller's:
// PyTorch computes on all cores, so that of the processor should be far above that of the clock.
child_options python_child(const std::string& folder, std::vector<std::string> command);

}  // namespace cudal1::cli
