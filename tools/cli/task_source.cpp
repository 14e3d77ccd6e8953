#include "tools/cli/task_source.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/remote_records.hpp"
#include "sandbox/device/device_names.hpp"
#include "store/blobs.hpp"

namespace cudal1::cli {

namespace {

bool is_file_name(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

}  // namespace

expected<std::string> profile_of(const std::string& devices) {
  CUDAL1_TRY(const std::string kind, kind_of_devices(devices));
  return traits_of(kind).profile;
}

std::string default_profile() {
  return preferred_device_type().traits().profile;
}

expected<void> check_tasks(const std::string& folder, const std::vector<std::string>& names,
                           const std::string& devices) {
  CUDAL1_TRY(const std::string profile, devices.empty() ? default_profile() : profile_of(devices));
  const auto chosen = choose_tasks(folder, names, profile);
  if (chosen) return {};
  if (devices.empty())
    for (const auto* type : device_types())
      if (choose_tasks(folder, names, type->traits().profile)) return {};
  return tl::unexpected<error>(chosen.error());
}

expected<std::vector<task>> choose_tasks(const std::string& folder, const std::vector<std::string>& names,
                                         const std::string& profile) {
  std::vector<task> available;
  std::string from = folder;
  if (names.empty() || !std::all_of(names.begin(), names.end(), is_file_name)) {
    if (folder.empty()) {
      CUDAL1_TRY(from, builtin_task_folder());
    }
    std::error_code ignored;
    if (!std::filesystem::is_directory(from, ignored))
      return fail(errc::not_found, "there is no folder {}; --tasks takes a folder of task files (*.json)", from);
    CUDAL1_TRY(available, load_tasks(from, profile));
    if (available.empty())
      return fail(errc::not_found, "there is no task file (*.json) in {}; --tasks takes a folder of them", from);
  }
  if (names.empty()) return available;

  std::vector<task> chosen;
  chosen.reserve(names.size());
  for (const auto& name : names) {
    if (is_file_name(name)) {
      CUDAL1_TRY(auto loaded, load_task(name, profile));
      chosen.push_back(std::move(loaded));
      continue;
    }
    const auto found = std::find_if(available.begin(), available.end(), [&](const task& t) { return t.name == name; });
    if (found == available.end()) {
      std::vector<std::string> known;
      known.reserve(available.size());
      for (const auto& t : available)
        known.push_back(t.name);
      return fail(errc::not_found, "there is no task \"{}\" in {}; it has: {}", name, from, fmt::join(known, ", "));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

expected<void> copy_task_blobs(const context& c, const std::vector<task>& tasks) {
  const blobs kept(c.data);
  const auto take = [&](const std::string& from, const std::string& name) {
    return c.coordinator ? send_blob(from, name, *c.coordinator) : kept.take(from, name);
  };
  for (const auto& t : tasks) {
    const std::string beside = t.folder + "/blobs";
    for (const auto& file : t.content_files())
      if (auto taken = take(beside, file); !taken) return fail_in("the weights of " + t.name, taken.error());
    std::error_code ignored;
    if (t.origin && std::filesystem::exists(beside + "/" + t.origin->source, ignored))
      CUDAL1_CHECK(take(beside, t.origin->source));
  }
  return {};
}

expected<void> fetch_task_blobs(const context& c, const std::vector<task>& tasks) {
  if (!c.coordinator) return {};
  const blobs here(c.data);
  for (const auto& t : tasks) {
    for (const auto& file : t.content_files())
      CUDAL1_CHECK(fetch_blob(*c.coordinator, here, file));
    if (!t.origin || t.origin->source.empty()) continue;
    // It may be missing there, too.
    if (auto source = fetch_blob(*c.coordinator, here, t.origin->source);
        !source && source.error().code != errc::not_found)
      return source;
  }
  return {};
}

std::string origin_text(const task_origin& origin) {
  if (origin.kind == origin_kind::kernelbench)
    return fmt::format("KernelBench level {}, problem {}", origin.level.value_or(0), origin.problem.value_or(0));
  return "a Python module";
}

}  // namespace cudal1::cli
