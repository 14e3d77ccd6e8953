// The Python process in which a node measures PyTorch.
#pragma once

#include "actors/messages/baseline_times.hpp"

namespace cudal1 {

// Finds the Python of this process's environment, as find_python does. A make_baseline_measurer.
expected<std::unique_ptr<baseline_measurer>> make_baseline_process(const baseline_place& place);

}  // namespace cudal1
