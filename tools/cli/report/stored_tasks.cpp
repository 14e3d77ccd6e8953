#include "tools/cli/report/stored_tasks.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sandbox/program/near_miss.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

std::string text_of(const task_version& v) {
  return fmt::format("{} ({}{})", short_id(v.task.id), v.task.profile,
                     v.searched_unix_ms > 0 ? ", searched on " + format_date(v.searched_unix_ms) : "");
}

tl::unexpected<error> no_such_task(const std::string& name, std::vector<std::string> known) {
  std::ranges::sort(known);
  known.erase(std::unique(known.begin(), known.end()), known.end());
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const auto hint = did_you_mean(name, candidates);
  return fail(errc::not_found, "there is no task \"{}\" in the store{}{} it has: {}", name, hint,
              hint.empty() ? ";" : "",
              known.empty() ? std::string("no tasks yet") : fmt::format("{}", fmt::join(known, ", ")));
}

}  // namespace

expected<std::vector<task_version>> versions_of_task(store& s, const std::string& name) {
  constexpr std::size_t least_of_id = 4;
  CUDAL1_TRY(const auto all, s.tasks());
  std::vector<task_version> found, by_id;
  std::vector<std::string> known;
  for (const auto& t : all) {
    known.push_back(t.name);
    if (t.name == name) found.push_back({t, 0});
    if (name.size() >= least_of_id && t.id.starts_with(name)) by_id.push_back({t, 0});
  }
  if (found.empty() && by_id.size() > 1)
    return fail(errc::invalid_argument, "the ids of {} tasks begin with {}; give more digits", by_id.size(), name);
  if (found.empty()) found = std::move(by_id);
  if (found.empty()) return no_such_task(name, std::move(known));
  if (found.size() == 1) return found;
  CUDAL1_TRY(const auto experiments, s.experiments());
  std::map<std::string, int64_t> searched;
  for (const auto& e : experiments)
    for (const auto& id : e.tasks)
      searched[id] = std::max(searched[id], e.created_unix_ms);
  for (auto& v : found)
    v.searched_unix_ms = searched[v.task.id];
  std::ranges::stable_sort(found, std::greater(), &task_version::searched_unix_ms);
  return found;
}

expected<task_record> find_task(store& s, const std::string& name) {
  CUDAL1_TRY(auto found, versions_of_task(s, name));
  return std::move(found.front().task);
}

std::string versions_text(const std::vector<task_version>& versions) {
  if (versions.size() < 2) return "";
  std::vector<std::string> others;
  for (std::size_t i = 1; i < versions.size(); ++i)
    others.push_back(text_of(versions[i]));
  return fmt::format("{} versions of {} are in the store, and this is {}; the id names another: {}", versions.size(),
                     versions.front().task.name, text_of(versions.front()), fmt::join(others, ", "));
}

}  // namespace cudal1::cli
