#include "tools/cli/task_source.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "actors/clients/remote_records.hpp"
#include "sandbox/device/device_names.hpp"
#include "sandbox/program/near_miss.hpp"
#include "store/blobs.hpp"
#include "store/compared_tasks.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/imported_tasks.hpp"

namespace cudal1::cli {

namespace {

bool is_file_name(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

// Several versions may have been imported: the newest is meant. An error if a built-in task has the name, too.
expected<std::optional<task>> imported_task(const std::string& data, const std::string& name,
                                            const std::string& profile, const task* built_in) {
  const auto versions = imported_versions(data, name);
  if (versions.empty()) return std::optional<task>();
  const auto& newest = versions.front();
  if (built_in != nullptr)
    return fail(errc::invalid_argument,
                "there are two tasks \"{}\": a built-in one, {}/{}.json, and one that was imported on {}, {}; name the "
                "file of the one that is meant",
                name, built_in->folder, name, format_date(newest.time_unix_ms), newest.file);
  CUDAL1_TRY(auto loaded, load_task(newest.file, profile));
  return std::optional(std::move(loaded));
}

tl::unexpected<error> no_such_task(const std::string& name, const std::string& from, const std::vector<task>& available,
                                   const std::string& data) {
  std::vector<std::string> known;
  known.reserve(available.size());
  for (const auto& t : available)
    known.push_back(t.name);
  std::vector<std::string> all = known;
  if (!data.empty())
    for (const auto& v : imported_versions(data))
      all.push_back(v.name);
  const std::vector<std::string_view> candidates(all.begin(), all.end());
  const auto hint = did_you_mean(name, candidates);
  return fail(errc::not_found, "there is no task \"{}\" in {}{}{}{} it has: {}", name, from,
              data.empty() ? "" : ", nor was it imported into " + data, hint, hint.empty() ? ";" : "",
              fmt::join(known, ", "));
}

}  // namespace

expected<std::string> profile_of(const std::string& devices) {
  CUDAL1_TRY(const std::string kind, kind_of_devices(devices));
  return traits_of(kind).profile;
}

std::string default_profile() {
  return preferred_device_type().traits().profile;
}

expected<void> check_tasks(const std::string& folder, const std::vector<std::string>& names, const std::string& devices,
                           const std::string& data) {
  CUDAL1_TRY(const std::string profile, devices.empty() ? default_profile() : profile_of(devices));
  const auto chosen = choose_tasks(folder, names, profile, data);
  if (chosen) return {};
  if (devices.empty())
    for (const auto* type : device_types())
      if (choose_tasks(folder, names, type->traits().profile, data)) return {};
  return tl::unexpected<error>(chosen.error());
}

expected<std::vector<task>> choose_tasks(const std::string& folder, const std::vector<std::string>& names,
                                         const std::string& profile, const std::string& data) {
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
    if (folder.empty() && !data.empty()) {
      CUDAL1_TRY(auto kept, imported_task(data, name, profile, found == available.end() ? nullptr : &*found));
      if (kept) {
        chosen.push_back(std::move(*kept));
        continue;
      }
    }
    if (found == available.end()) return no_such_task(name, from, available, folder.empty() ? data : "");
    chosen.push_back(*found);
  }
  return chosen;
}

void note_versions(const context& c, const std::string& folder, const std::vector<std::string>& names) {
  if (!folder.empty()) return;
  for (const auto& name : names)
    if (!is_file_name(name))
      if (const auto text = versions_text(imported_versions(c.data, name)); !text.empty()) note(c, text);
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

expected<void> clear_known_marks(const context& c, std::vector<task>& tasks) {
  if (std::ranges::none_of(tasks, is_uncompared)) return {};
  const auto known = open_for_reading(c);
  if (!known && known.error().code == errc::not_found) return {};
  if (!known) return tl::unexpected<error>(known.error());
  for (auto& t : tasks) {
    if (!is_uncompared(t)) continue;
    CUDAL1_TRY(const bool compared, was_compared(**known, t));
    if (compared) t.origin->uncompared.clear();
  }
  return {};
}

std::string marked_name(const task& t) {
  return t.name + (is_uncompared(t) ? uncompared_mark : "");
}

std::string origin_text(const task_origin& origin) {
  if (origin.kind == origin_kind::kernelbench)
    return fmt::format("KernelBench level {}, problem {}", origin.level.value_or(0), origin.problem.value_or(0));
  return "a Python module";
}

}  // namespace cudal1::cli
