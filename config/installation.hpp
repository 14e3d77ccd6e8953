// How the programs were installed: in a build or a bundle, or by pip as a wheel.
#pragma once

#include <filesystem>
#include <string>

namespace cudal1 {

// A wheel has them in SITE_PACKAGES/cudal1_programs/bin. `bin`: the folder of a program.
bool is_in_wheel(const std::filesystem::path& bin);

// What to do where the programs in `bin` do not find LibTorch, as an imperative clause without a full stop.
std::string libtorch_advice(const std::filesystem::path& bin);
// The same for the running program.
std::string libtorch_advice();

// What to do where there is no GCC, which compiles the kernels of the device cpu; without a full stop.
std::string host_compiler_advice();

}  // namespace cudal1
