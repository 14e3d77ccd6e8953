// The role `compile-cuda` of cudal1-worker: loads and warms NVRTC, and forks one confined child per compilation.
#pragma once

#include <string>

namespace cudal1 {

// `settings`: the text of compile_settings. Returns the process's exit code.
int run_compile_zygote(const std::string& settings);

}  // namespace cudal1
