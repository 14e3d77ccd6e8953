// The role `compile-cuda` of cudal1-worker: NVRTC, loaded and warm, that forks one confined child a compilation.
#pragma once

#include <string>

namespace cudal1 {

// `settings`: the text of compile_settings. The rest of the process's life; its exit code.
int run_compile_zygote(const std::string& settings);

}  // namespace cudal1
