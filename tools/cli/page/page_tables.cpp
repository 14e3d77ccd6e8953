#include "tools/cli/page/page_tables.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "actors/messages/protocol.hpp"
#include "tools/cli/format.hpp"

namespace cudal1::cli {

namespace {

data_cell whole(int64_t n) {
  return {std::to_string(n)};
}

data_cell speedup(double value) {
  return {format_speedup(value), exact(value)};
}

data_cell speedup_or_dash(double value) {
  return value > 0 ? speedup(value) : data_cell{"-"};
}

data_cell share(double value) {
  return {fmt::format("{:.0f}%", 100 * value), exact(value)};
}

data_cell time_cell(double us) {
  return us > 0 ? data_cell{format_time(us), exact(us)} : data_cell{"-"};
}

std::string base_name(const std::string& base) {
  return base == against_program ? "own program" : base;
}

std::vector<data_cell> level_row(const std::string& base, const group_summary& g) {
  const auto& s = g.over;
  return {{g.group},
          {base_name(base)},
          whole(s.measured),
          {fmt::format("{} of {}", s.success, s.tasks), exact(static_cast<double>(s.success))},
          speedup(s.geometric_mean),
          s.device_geometric_mean ? speedup(*s.device_geometric_mean) : data_cell{"-"},
          speedup(s.mean),
          speedup(s.max),
          speedup(s.upper_quartile),
          speedup(s.median),
          speedup(s.lower_quartile),
          share(s.over_101),
          whole(s.slower)};
}

}  // namespace

namespace {

bool is_family(const group_summary& g) {
  return !g.group.starts_with("all") && !g.group.starts_with("level ");
}

data_table groups_table(const page_data& page, data_table t, bool families) {
  t.columns = {{"tasks of"},        {"over"},
               {"measured", true},  {"success", true},
               {"geo. mean", true}, {"on the device", true},
               {"mean", true},      {"max", true},
               {"75%", true},       {"median", true},
               {"25%", true},       {">1.01x", true},
               {"slower", true}};
  for (const auto& base : page.bases)
    for (const auto& group : base.groups)
      if (group.over.measured > 0 && is_family(group) == families) t.rows.push_back(level_row(base.base, group));
  return t;
}

}  // namespace

data_table level_table(const page_data& page) {
  return groups_table(
      page, {"levels", "Speedups of call times. A task that failed or is not faster counts as 1.", {}, {}}, false);
}

data_table family_table(const page_data& page) {
  return groups_table(page, {"families", "The same by family of tasks.", {}, {}}, true);
}

data_table fast_table(const page_data& page) {
  data_table t{"fast-p", "fast_p as numbers.", {{"tasks of"}, {"over"}}, {}};
  if (page.bases.empty()) return t;
  for (const auto& f : page.bases.front().groups.front().over.fast)
    t.columns.push_back({fmt::format("fast_{}", f.factor), true});
  t.columns.push_back({"gap closed", true});
  t.columns.push_back({"of the roof", true});
  for (const auto& base : page.bases)
    for (const auto& [group, over] : base.groups) {
      if (over.measured == 0 || is_family({group, over})) continue;
      std::vector<data_cell> row{{group}, {base_name(base.base)}};
      for (const auto& f : over.fast)
        row.push_back(share(f.share));
      row.push_back(over.gap_closed ? share(*over.gap_closed) : data_cell{"-"});
      row.push_back(over.roof_share ? share(*over.roof_share) : data_cell{"-"});
      t.rows.push_back(std::move(row));
    }
  return t;
}

data_table task_table(const page_data& page) {
  data_table t{"tasks",
               "Every task with its best confirmed variant, over its own program.",
               {{"task"},
                {"family"},
                {"reference", true},
                {"best", true},
                {"speedup", true},
                {"95% interval", true},
                {"precision"},
                {"floor", true},
                {"roof", true},
                {"evals", true},
                {"correct", true},
                {"variant"}},
               {}};
  for (std::size_t i = 0; i < page.report.tasks.size(); ++i) {
    const auto& row = page.report.tasks[i];
    const bool timed = row.reference_us > 0;
    data_cell name{row.name};
    name.link = fmt::format("task-{}", i + 1);
    t.rows.push_back({name,
                      {row.family.empty() ? "other" : row.family},
                      time_cell(row.reference_us),
                      time_cell(row.best_us),
                      timed ? speedup(row.speedup) : data_cell{"-"},
                      row.is_reference ? data_cell{"-"}
                                       : data_cell{fmt::format("{} to {}", format_number(row.speedup_interval.low),
                                                               format_number(row.speedup_interval.high))},
                      {row.precision},
                      time_cell(row.floor_us),
                      row.roof_share > 0 ? share(row.roof_share) : data_cell{"-"},
                      whole(row.evaluations),
                      whole(row.correct),
                      row.is_reference ? data_cell{"-"} : data_cell{short_id(row.variant), row.variant}});
  }
  return t;
}

data_table technique_table(const page_data& page) {
  data_table t{"techniques",
               "Kinds of moves, by family: how many variants used each, and what the best variants with it reached.",
               {{"family"},
                {"move"},
                {"variants", true},
                {"correct", true},
                {"best of tasks", true},
                {"their geo. mean", true},
                {"median of all", true}},
               {}};
  for (const auto& one : page.techniques)
    t.rows.push_back({{one.family},
                      {one.move.empty() ? "all of the family" : one.move},
                      whole(one.variants),
                      whole(one.correct),
                      whole(one.best_of),
                      speedup_or_dash(one.geometric_mean),
                      speedup_or_dash(one.median)});
  return t;
}

data_table failure_table(const page_data& page) {
  data_table t{"failures",
               "Failed variants by outcome, with the newest of each.",
               {{"outcome"}, {"variants", true}, {"newest: task"}, {"variant"}, {"reason", false, true}},
               {}};
  for (const auto& f : page.failures)
    t.rows.push_back({{f.outcome}, whole(f.count), {f.task}, {short_id(f.variant), f.variant}, {f.reason}});
  return t;
}

data_table hack_table(const page_data& page) {
  data_table t{
      "hacks",
      fmt::format("Refused variants that are evidence of a way to cheat, by class: at most the newest {} of each.",
                  most_hacks_of_a_class),
      {{"class"}, {"case"}, {"variant"}, {"written by"}, {"gate"}, {"reason", false, true}},
      {}};
  for (const auto& c : page.hacks)
    for (const auto& h : c.cases)
      t.rows.push_back({{words_of(c.kind)},
                        {h.id},
                        {short_id(h.variant), h.variant},
                        {h.model.empty() ? h.origin : h.model},
                        {h.gate},
                        {h.reason}});
  return t;
}

data_table model_table(const page_data& page) {
  data_table t{"models",
               "What each language model reached, and what its answers took.",
               {{"model"},
                {"prompts", true},
                {"tasks", true},
                {"faster", true},
                {"geo. mean", true},
                {"best", true},
                {"correct", true},
                {"evaluations", true},
                {"tokens", true},
                {"cost", true}},
               {}};
  for (const auto& m : page.report.models)
    t.rows.push_back({{m.model},
                      whole(m.prompts),
                      whole(m.tasks),
                      whole(m.faster),
                      speedup(m.geometric_mean),
                      speedup_or_dash(m.best),
                      whole(m.correct),
                      whole(m.evaluations),
                      whole(m.cost.prompt_tokens + m.cost.answer_tokens),
                      {fmt::format("{:.3g}", m.cost.money), exact(m.cost.money)}});
  return t;
}

data_table stage_table(const page_data& page) {
  data_table t{
      "stages", "Where the time of an evaluation goes.", {{"stage"}, {"mean", true}, {"holds the device"}}, {}};
  if (page.report.evaluations == 0) return t;
  for (const auto& [stage, ms] : page.report.stage_ms) {
    const double us = 1000 * ms / static_cast<double>(page.report.evaluations);
    const bool holds = device_ms_of({{stage, 1.0}}) > 0;
    t.rows.push_back({{stage}, {format_time(us), exact(us)}, {holds ? "yes" : "no"}});
  }
  return t;
}

data_table environment_table(const page_data& page) {
  data_table t{
      "environment", "What the times depend on.", {{"device"}, {"model"}, {"details", false, true}, {"id"}}, {}};
  for (const auto& e : page.report.environments)
    t.rows.push_back({{e.device}, {e.model}, {e.details}, {short_id(e.id), e.id}});
  return t;
}

std::vector<data_table> tables_of(const page_data& page) {
  std::vector<data_table> all{level_table(page),       family_table(page),          fast_table(page),
                              task_table(page),        technique_table(page),       failure_table(page),
                              hack_table(page),        model_table(page),           stage_table(page),
                              environment_table(page), evaluator_group_table(page), evaluator_table(page)};
  std::erase_if(all, [](const data_table& t) { return t.empty(); });
  return all;
}

}  // namespace cudal1::cli
