#include "tools/cli/report/speedup_groups.hpp"

#include <map>

#include <fmt/format.h>

namespace cudal1::cli {

std::vector<group_summary> groups_of(const search_report& r) {
  std::map<std::string, std::vector<task_speedup>> levels, families;
  std::vector<task_speedup> all;
  for (const auto& row : r.tasks) {
    const auto t = speedup_of_row(row);
    all.push_back(t);
    if (row.level > 0) levels[fmt::format("level {}", row.level)].push_back(t);
    families[row.family.empty() ? "other" : row.family].push_back(t);
  }
  std::vector<group_summary> groups = {{"all", summarize(all)}};
  if (r.over_of_others) groups.push_back({"all but ill-conditioned", *r.over_of_others});
  for (const auto& [name, tasks] : levels)
    groups.push_back({name, summarize(tasks)});
  if (families.size() > 1)
    for (const auto& [name, tasks] : families)
      groups.push_back({name, summarize(tasks)});
  return groups;
}

}  // namespace cudal1::cli
