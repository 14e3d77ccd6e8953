// Where tasks are kept: files, folders of them, and the folder of the built-in ones.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "sandbox/program/task.hpp"

namespace cudal1 {

namespace fs = std::filesystem;

namespace {

expected<std::string> read_file(const std::string& path) {
  const program_limits limits;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(errc::io_error, "{}: cannot be opened: {}", path, std::strerror(errno));
  std::string text(static_cast<std::size_t>(limits.max_text_bytes) + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return fail(errc::io_error, "{}: cannot be read: {}", path, std::strerror(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

expected<task> load_task(const std::string& path, std::string_view profile) {
  CUDAL1_TRY(const auto text, read_file(path));
  auto t = read_task(text, profile);
  if (!t) return fail_in(path, t.error());
  const auto folder = fs::path(path).parent_path();
  t->folder = folder.empty() ? "." : folder.string();
  return t;
}

expected<std::vector<task>> load_tasks(const std::string& folder, std::string_view profile) {
  std::error_code problem;
  std::vector<std::string> paths;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end; entry.increment(problem))
    if (entry->path().extension() == ".json") paths.push_back(entry->path().string());
  if (problem) return fail(errc::io_error, "the task folder {}: {}", folder, problem.message());
  if (paths.empty()) return fail(errc::not_found, "the task folder {} has no *.json", folder);
  std::sort(paths.begin(), paths.end());
  std::map<std::string, std::string> seen;
  std::vector<task> tasks;
  for (const auto& path : paths) {
    CUDAL1_TRY(auto t, load_task(path, profile));
    if (const auto [other, fresh] = seen.emplace(t.name, path); !fresh)
      return fail(errc::already_exists, "{}: the task {} is in {} already", path, t.name, other->second);
    tasks.push_back(std::move(t));
  }
  std::sort(tasks.begin(), tasks.end(), [](const task& a, const task& b) { return a.name < b.name; });
  return tasks;
}

expected<std::string> builtin_task_folder() {
  std::error_code problem;
  if (const char* chosen = std::getenv("CUDAL1_TASKS"); chosen && *chosen) {
    if (fs::is_directory(chosen, problem)) return std::string(chosen);
    return fail(errc::not_found, "CUDAL1_TASKS names {}, which is not a folder", chosen);
  }
  if (const auto self = fs::read_symlink("/proc/self/exe", problem); !problem) {
    const auto installed = (self.parent_path().parent_path() / "share" / "cudal1" / "tasks").string();
    if (fs::is_directory(installed, problem)) return installed;
  }
  if (fs::is_directory(CUDAL1_SOURCE_TASKS, problem)) return std::string(CUDAL1_SOURCE_TASKS);
  return fail(errc::not_found, "the built-in tasks are neither installed nor in {}; set CUDAL1_TASKS to their folder",
              CUDAL1_SOURCE_TASKS);
}

}  // namespace cudal1
