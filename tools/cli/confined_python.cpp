#include "tools/cli/confined_python.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "config/base/text_file.hpp"

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

expected<python_result> run_confined_python(const std::string& python, const std::string& script,
                                            std::vector<std::string> words, const std::string& writable, int stop_fd) {
  constexpr double longest_s = 86400;  // the limits of time are the program's own
  CUDAL1_TRY(const auto folder, private_folder::create());
  const auto report = folder.path() + "/report.json";
  words.insert(words.begin(), {python, script});
  words.insert(words.end(), {"--report", report});
  child_options o = python_child(folder.path(), std::move(words));
  o.writable = {writable};
  o.time_limit_s = longest_s;
  o.cpu_time_limit_s = longest_s * 1000;
  o.stop_fd = stop_fd;
  CUDAL1_TRY(const auto ended, run_child(o));
  if (ended.stopped) return fail(errc::cancelled, "interrupted");
  std::fputs(ended.output.c_str(), stderr);
  python_result result;
  result.code = ended.signal != 0 ? 128 + ended.signal : ended.exit_code;
  if (std::error_code problem; std::filesystem::is_regular_file(report, problem)) {
    CUDAL1_TRY(result.out, read_text_file(report));
  }
  return result;
}

}  // namespace cudal1::cli
