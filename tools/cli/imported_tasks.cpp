#include "tools/cli/imported_tasks.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace fs = std::filesystem;

namespace {

// 0: there is no such file.
int64_t modified_unix_ms(const fs::path& file) {
  struct stat now {};
  if (::stat(file.c_str(), &now) != 0) return 0;
  constexpr int64_t ms_per_s = 1000, ns_per_ms = 1'000'000;
  return now.st_mtim.tv_sec * ms_per_s + now.st_mtim.tv_nsec / ns_per_ms;
}

void add_versions(const fs::path& import, const std::string& name, std::vector<imported_version>& found) {
  const auto time = modified_unix_ms(import / import_report_name);
  // One that begins with a dot, or has no report, is not complete.
  if (time == 0 || import.filename().string().starts_with(".")) return;
  std::error_code problem;
  if (!name.empty()) {
    if (const auto file = import / (name + ".json"); fs::is_regular_file(file, problem))
      found.push_back({name, file.string(), time, false});
    return;
  }
  for (fs::directory_iterator entry(import, problem), end; !problem && entry != end; entry.increment(problem))
    if (const auto& file = entry->path(); file.extension() == ".json")
      found.push_back({file.stem().string(), file.string(), time, false});
}

}  // namespace

std::string imported_folder(const std::string& data) {
  return data + "/imported";
}

std::vector<imported_version> imported_versions(const std::string& data, const std::string& name) {
  std::vector<imported_version> found;
  std::error_code problem;
  for (fs::directory_iterator entry(imported_folder(data), problem), end; !problem && entry != end;
       entry.increment(problem))
    add_versions(entry->path(), name, found);
  std::ranges::sort(found, [](const auto& a, const auto& b) {
    return std::tuple(a.name, -a.time_unix_ms, a.file) < std::tuple(b.name, -b.time_unix_ms, b.file);
  });
  for (std::size_t i = 0; i < found.size(); ++i)
    found[i].is_newest = i == 0 || found[i].name != found[i - 1].name;
  return found;
}

std::string versions_text(const std::vector<imported_version>& of_one_name) {
  if (of_one_name.size() < 2) return "";
  std::vector<std::string> older;
  for (std::size_t i = 1; i < of_one_name.size(); ++i)
    older.push_back(fmt::format("{} ({})", of_one_name[i].file, format_date(of_one_name[i].time_unix_ms)));
  return fmt::format("{}: the newest of {} imported versions, of {}; the older ones: {}", of_one_name.front().name,
                     of_one_name.size(), format_date(of_one_name.front().time_unix_ms), fmt::join(older, ", "));
}

}  // namespace cudal1::cli
