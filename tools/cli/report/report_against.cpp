// Compares a report's rows with PyTorch's own times.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tools/cli/format.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

namespace {

// The row's own times and speedup: relative to the task's own program.
against_times over_program(const best_row& row) {
  against_times a;
  a.kind = against_program;
  a.environment_id = row.environment_id;
  if (!(row.reference_us > 0)) {
    a.problem = "not measured";
    return a;
  }
  a.base_us = row.reference_us;
  a.base_device_us = row.reference_device_us;
  if (row.is_reference) return a;
  a.variant_us = row.best_us;
  a.variant_device_us = row.best_device_us;
  a.speedup = row.speedup;
  a.speedup_interval = row.speedup_interval;
  a.beside = true;
  return a;
}

expected<void> name_environment(store& s, search_report& r, const std::string& id) {
  const bool known =
      std::any_of(r.environments.begin(), r.environments.end(), [&](const auto& e) { return e.id == id; });
  if (id.empty() || known) return {};
  CUDAL1_TRY(auto where, s.get_environment(id));
  r.environments.push_back(std::move(where));
  return {};
}

}  // namespace

expected<void> compare_with_base(store& s, search_report& r, const std::string& kind) {
  r.against = kind;
  environment_finder environments(s);
  std::vector<task_speedup> speedups, of_others;
  for (auto& row : r.tasks) {
    if (kind == against_program) {
      row.against = over_program(row);
    } else {
      CUDAL1_TRY(const auto records, s.baselines_of_task(row.task));
      row.against = compare(records, kind, {row.variant, row.environment_id, row.best_us, row.best_device_us},
                            [&](const std::string& id) { return environments.of(id); });
      CUDAL1_CHECK(name_environment(s, r, row.against->environment_id));
    }
    speedups.push_back(speedup_of_row(row));
    if (row.ill_conditioned.empty()) of_others.push_back(speedups.back());
  }
  r.over = summarize(speedups);
  if (r.ill_conditioned > 0) r.over_of_others = summarize(of_others);
  return {};
}

expected<void> compare_with_base_or_usual(store& s, search_report& r, const std::string& kind) {
  if (!kind.empty()) return compare_with_base(s, r, kind);
  std::vector<std::string> tasks;
  for (const auto& row : r.tasks)
    tasks.push_back(row.task);
  CUDAL1_TRY(const auto usual, usual_base(s, tasks));
  return compare_with_base(s, r, usual);
}

task_speedup speedup_of_row(const best_row& row) {
  task_speedup t;
  t.success = row.reference_us > 0;
  t.floor_us = row.floor_us;
  t.roof_share = row.roof_share;
  if (!row.against || !row.against->problem.empty()) return t;
  const auto& a = *row.against;
  t.measured = true;
  t.base_us = a.base_us;
  t.speedup = a.speedup;
  if (a.base_device_us > 0 && a.variant_device_us > 0) t.device_speedup = a.base_device_us / a.variant_device_us;
  return t;
}

namespace {

constexpr double same_time = 1.02;  // a ratio of two medians that are known to 1% each

// Compares the task's own program with the base. The score is relative to that program, so a program that is slower
// than PyTorch's eager mode would make scores too high.
std::string program_beside(const search_report& r) {
  int64_t known = 0, slower = 0, apart = 0;
  double worst = 0;
  std::string of;
  for (const auto& row : r.tasks) {
    if (row.against && is_apart(program_over_eager(*row.against, row.reference_us))) ++apart;
    const double ratio = row.against ? program_over_eager(*row.against, 0) : 0;
    if (!(ratio > 0)) continue;
    ++known;
    if (ratio > same_time) ++slower;
    if (ratio > worst) worst = ratio, of = row.name;
  }
  std::string text;
  if (known > 0 && slower == 0)
    text = fmt::format("The task's own program takes at most 2% longer than {} in {}.\n", r.against,
                       known == 1 ? "the 1 task" : fmt::format("all {} tasks", known));
  if (slower > 0)
    text = fmt::format("The task's own program takes longer than {} in {} of {}, up to {:.2f} times as long ({}).\n",
                       r.against, slower, format_count(known, "task"), worst, of);
  if (apart > 0)
    text += fmt::format(
        "{} where the task's own program and {} are more than 1.5 times apart: there a speedup over the program says "
        "little of one over {}.\n",
        format_count(apart, "task"), r.against, r.against);
  return text;
}

std::string mean_over(const std::string& against, const speedup_summary& over) {
  std::string text = fmt::format(
      "Over {}, of {} that {} measured: geometric mean {} (tasks that are not faster count as 1)", against,
      format_count(over.measured, "task"), over.measured == 1 ? "was" : "were", format_speedup(over.geometric_mean));
  if (over.device_geometric_mean)
    text += fmt::format(", {} by device time", format_speedup(*over.device_geometric_mean));
  text += over.slower > 0 ? fmt::format("; {} slower than {}.\n", over.slower, against) : ".\n";
  return text;
}

std::string missing_times(const search_report& r, const std::map<std::string, int64_t>& problems) {
  std::string text;
  for (const auto& [problem, n] : problems) {
    if (problem == "not measured")
      text += fmt::format("{} not measured with {}: use `cudal1 baseline{} --kinds {}`.\n", format_count(n, "task"),
                          r.against, r.experiment.empty() ? "" : " --experiment " + r.experiment, r.against);
    else
      text += fmt::format("{} without a time of {}: {}\n", format_count(n, "task"), r.against, problem);
  }
  return text;
}

}  // namespace

std::string print_against(const search_report& r) {
  if (r.against.empty() || r.against == against_program || !r.over) return "";
  const auto& over = *r.over;
  std::string text;
  int64_t beside = 0, apart = 0, differ = 0, on_device = 0, noted = 0;
  std::map<std::string, int64_t> problems;
  for (const auto& row : r.tasks) {
    if (!row.against) continue;
    const auto& a = *row.against;
    if (!a.problem.empty()) ++problems[a.problem];
    if (a.speedup > 0) ++(a.beside ? beside : apart);
    if (a.speedup > 0 && a.variant_device_us > 0) ++on_device;
    if (!a.check.empty() && a.problem.empty()) ++differ;
    if (!a.notes.empty() && a.problem.empty()) ++noted;
  }
  if (over.measured > 0) text = mean_over(r.against, over);
  if (r.against == "eager") text += program_beside(r);
  if (on_device > 0)
    text += fmt::format(
        "{} is called from Python, so the variants' times here include what such a call takes on the host.\n",
        r.against);
  if (apart > 0)
    text += fmt::format("* {} was not measured together with this variant, whose time is from its stored verdict.\n",
                        r.against);
  if (differ > 0)
    text += fmt::format("{} where the result of {} differs from eager's (`--json` says how).\n",
                        format_count(differ, "task"), r.against);
  if (noted > 0)
    text +=
        fmt::format("{} of {} with notes, for example on a slow host (`cudal1 best TASK --against {}` prints them).\n",
                    format_count(noted, "time"), r.against, r.against);
  return text + missing_times(r, problems);
}

}  // namespace cudal1::cli
