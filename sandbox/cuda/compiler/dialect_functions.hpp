// The dialect's functions beyond those of CUDA C++ (sandbox/README.md): which of them a program needs.
#pragma once

#include <string>
#include <string_view>

namespace cudal1 {

// The definitions of those that the source may call, to stand before it; errs on the side of more. Atomics are not
// among them: NVRTC and nvcc lack different ones.
std::string dialect_functions(std::string_view source);

// Whether the source calls grid_sync(), whose definition may read what no other function may.
bool calls_grid_sync(std::string_view source);

}  // namespace cudal1
