// The work of the kernels of pools, for estimates.
#pragma once

#include <set>

#include "policy/codegen/cuda/window_layout.hpp"

namespace cudal1 {

// `front`: nodes of which what is pooled is made; `behind`: those of which the results are made, up to the pool.
kernel_work work_of_windows(const kernel_body& body, const window_layout& l, const std::set<int>& front,
                            const std::set<int>& behind);

}  // namespace cudal1
