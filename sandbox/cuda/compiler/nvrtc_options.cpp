#include "sandbox/cuda/compiler/nvrtc_call.hpp"

namespace cudal1 {

// No fast math: products and sums contract, as with nvcc, and nothing else differs from IEEE arithmetic. Without
// headers,
// --minimal omits the parts of CUDA that no kernel may use (device runtime, textures), which saves parsing them. With
// them, libcu++ redefines the limits that the prologue defines (warning 47).
const std::vector<std::string>& nvrtc_options(const std::vector<std::string>& headers) {
  static const std::vector<std::string> common{"--std=c++20",       "--device-as-default-execution-space",
                                               "--device-int128",   "--fmad=true",
                                               "--ftz=false",       "--prec-div=true",
                                               "--prec-sqrt=true",  "--no-source-include",
                                               "--ptxas-options=-v"};
  const auto with = [](const char* last) {
    auto options = common;
    options.emplace_back(last);
    return options;
  };
  static const auto plain = with("--minimal"), full = with("--diag-suppress=47");
  return headers.empty() ? plain : full;
}

}  // namespace cudal1
