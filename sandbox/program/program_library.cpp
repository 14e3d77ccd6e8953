#include "sandbox/program/program_library.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "sandbox/program/task.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

// The longest prefix of `name` that is a built-in task's name and ends before an underscore or with the name.
std::string task_of(const std::string& name, const std::string& tasks) {
  std::error_code problem;
  for (auto end = name.size(); end != std::string::npos && end > 0; end = name.rfind('_', end - 1)) {
    const auto task = name.substr(0, end);
    if (fs::is_regular_file(tasks + "/" + task + ".json", problem)) return task;
  }
  return "";
}

expected<library_program> load_program(const fs::path& path, const std::string& tasks) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(errc::io_error, "{}: cannot be opened: {}", path.string(), std::strerror(errno));
  library_program out;
  out.name = path.stem().string();
  out.task = task_of(out.name, tasks);
  if (out.task.empty())
    return fail(errc::not_found, "{}: no task in {} has its name; call it TASK.cu1 or TASK_VARIANT.cu1", path.string(),
                tasks);
  auto program = check_program_text(std::string(std::istreambuf_iterator<char>(file), {}));
  if (!program) return fail_in(path.string(), program.error());
  out.program = std::move(*program);
  return out;
}

}  // namespace

expected<std::string> program_library_folder() {
  std::error_code problem;
  if (const auto self = fs::read_symlink("/proc/self/exe", problem); !problem) {
    const auto installed = (self.parent_path().parent_path() / "share" / "cudal1" / "programs").string();
    if (fs::is_directory(installed, problem)) return installed;
  }
  if (fs::is_directory(CUDAL1_SOURCE_PROGRAMS, problem)) return std::string(CUDAL1_SOURCE_PROGRAMS);
  return fail(errc::not_found, "the library of programs is neither installed nor in {}; install again",
              CUDAL1_SOURCE_PROGRAMS);
}

expected<std::vector<library_program>> load_program_library(std::string_view profile) {
  CUDAL1_TRY(const auto library, program_library_folder());
  CUDAL1_TRY(const auto tasks, builtin_task_folder());
  const auto folder = fs::path(library) / profile;
  std::error_code problem;
  std::vector<fs::path> paths;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    if (entry->path().extension() == ".cu1") paths.push_back(entry->path());
  if (problem) return fail(errc::not_found, "the folder of programs {}: {}", folder.string(), problem.message());
  std::sort(paths.begin(), paths.end());
  std::vector<library_program> programs;
  for (const auto& path : paths) {
    CUDAL1_TRY(auto program, load_program(path, tasks));
    programs.push_back(std::move(program));
  }
  return programs;
}

}  // namespace cudal1
