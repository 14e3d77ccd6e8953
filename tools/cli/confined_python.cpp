#include "tools/cli/confined_python.hpp"

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

namespace cudal1::cli {

namespace {

constexpr int64_t longest_output = 1 << 20;

std::vector<std::string> environment(const std::string& folder) {
  std::vector<std::string> all{"HOME=" + folder, "TORCH_EXTENSIONS_DIR=" + folder + "/build", "PYTHONUNBUFFERED=1"};
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_HOME", "CUDA_PATH", "CC",
                           "CXX", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "PYTHONUSERBASE"})
    if (const char* value = std::getenv(name)) all.push_back(fmt::format("{}={}", name, value));  // NOLINT
  // Python looks for a user's packages below HOME.
  if (const char* home = std::getenv("HOME"); home != nullptr && std::getenv("PYTHONUSERBASE") == nullptr)  // NOLINT
    all.push_back(fmt::format("PYTHONUSERBASE={}/.local", home));
  return all;
}

}  // namespace

child_options python_child(const std::string& folder, std::vector<std::string> command) {
  child_options o;
  o.command = std::move(command);
  o.readable = {"/"};
  o.folder = folder;
  o.environment = environment(folder);
  o.open_files = 4096;
  o.output_limit_bytes = longest_output;
  return o;
}

}  // namespace cudal1::cli
