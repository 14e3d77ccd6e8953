// cudal1 report: the speedups that a search reached, over all tasks, by level and by family.
#include <optional>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/commands/compare_model.hpp"
#include "tools/cli/commands/report_page.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/precision_option.hpp"
#include "tools/cli/report/estimate_summary.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/speedup_groups.hpp"
#include "tools/cli/table.hpp"
#include "tools/kernelbench/exportable.hpp"

namespace cudal1::cli {

namespace {

struct report_options {
  std::string experiment, precision;
  std::string against;  // "": usual_base
  bool exportable = false, json = false;
  std::string comparison;  // a folder of `cudal1 compare --plan`
  page_files files;
};

std::string percent(double share) {
  return fmt::format("{:.0f}%", 100 * share);
}

// "-" if nothing was measured in that group.
std::string or_dash(const speedup_summary& s, const std::string& text) {
  return s.measured > 0 ? text : "-";
}

table table_of_speedups(const std::vector<group_summary>& groups) {
  const bool by_device = groups.front().over.device_geometric_mean.has_value();
  std::vector<column> columns = {{.title = "tasks of"},
                                 {.title = "tasks", .right = true},
                                 {.title = "measured", .right = true, .drop = 2},
                                 {.title = "verified", .right = true},
                                 {.title = "faster", .right = true, .drop = 1},
                                 {.title = "geo. mean", .right = true}};
  if (by_device) columns.push_back({.title = "by device", .right = true});
  columns.insert(columns.end(), {{.title = "mean", .right = true},
                                 {.title = "25%", .right = true, .drop = 3},
                                 {.title = "median", .right = true},
                                 {.title = "75%", .right = true, .drop = 3},
                                 {.title = "max", .right = true}});
  table t(std::move(columns));
  for (const auto& group : groups) {
    const auto& s = group.over;
    const auto times = [&](double v) { return or_dash(s, format_speedup(v)); };
    std::vector<std::string> cells = {group.group,
                                      std::to_string(s.tasks),
                                      std::to_string(s.measured),
                                      std::to_string(s.success),
                                      std::to_string(s.improved),
                                      times(s.geometric_mean)};
    if (by_device) cells.push_back(s.device_geometric_mean ? format_speedup(*s.device_geometric_mean) : "-");
    cells.insert(cells.end(),
                 {times(s.mean), times(s.lower_quartile), times(s.median), times(s.upper_quartile), times(s.max)});
    t.add(std::move(cells));
  }
  return t;
}

table table_of_shares(const std::vector<group_summary>& groups) {
  std::vector<column> columns = {{.title = "tasks of"}, {.title = ">1.01x", .right = true}};
  for (const auto& f : groups.front().over.fast)
    columns.push_back({.title = fmt::format("fast_{}", f.factor), .right = true});
  columns.push_back({.title = "gap closed", .right = true});
  const bool has_roofs = groups.front().over.roof_share.has_value();
  if (has_roofs) columns.push_back({.title = "of the roof", .right = true});
  table t(std::move(columns));
  for (const auto& [name, s] : groups) {
    std::vector<std::string> cells = {name, or_dash(s, percent(s.over_101))};
    for (const auto& f : s.fast)
      cells.push_back(or_dash(s, percent(f.share)));
    cells.push_back(s.gap_closed ? percent(*s.gap_closed) : "-");
    if (has_roofs) cells.push_back(s.roof_share ? percent(*s.roof_share) : "-");
    t.add(std::move(cells));
  }
  return t;
}

std::string legend(const search_report& r, const speedup_summary& all) {
  const std::string base = r.against == against_program ? "the task's own program" : r.against;
  std::string text = fmt::format(
      "Speedups are ratios of call times, relative to {}; tasks that failed or are not faster count as 1. verified: "
      "tasks with a time, of a confirmed variant or of their own program. fast_p: share of the measured tasks that are "
      "more than p times as fast.",
      base);
  if (all.device_geometric_mean) text += " by device: geometric mean of the ratios of device time.";
  if (all.gap_closed) text += fmt::format(" gap closed: share of the log gap from {} to the floor.", base);
  if (all.roof_share)
    text +=
        " of the roof: the least device time, by the device's specifications, as a share of the best's; mean over the "
        "tasks.";
  return text;
}

expected<int> report(const report_options& o, context& c) {
  if (!o.comparison.empty()) return show_comparison(o.comparison, o.json, c);
  if (!o.files.evaluator.empty() && !o.files.any())
    return fail(errc::invalid_argument, "--evaluator is for the page or its tables: give --html or --tables, too");
  if (o.files.any()) return write_page(o.files, o.experiment, o.against, c);
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  CUDAL1_TRY(auto r, o.experiment.empty() ? report_everything(*reader, "", accuracy_named(o.precision))
                                          : report_experiment(*reader, o.experiment));
  std::optional<exportable_summary> exportable;
  if (o.exportable) {
    CUDAL1_TRY(exportable, leave_exportable(*reader, r, c.data));
  }
  CUDAL1_CHECK(compare_with_base_or_usual(*reader, r, o.against));
  const auto groups = groups_of(r);
  CUDAL1_TRY(const auto estimates, estimates_of(*reader, r));
  if (o.json) {
    print_json(c, json::make_object({{"experiment", r.experiment},
                                     {"state", r.state},
                                     {"policy", r.policy},
                                     {"device", r.device},
                                     {"environments", to_json(r.environments)},
                                     {"against", r.against},
                                     {"groups", to_json(groups)},
                                     {"models", to_json(r.models)},
                                     {"estimates", to_json(estimates)},
                                     {"exportable", to_json(exportable)},
                                     {"tasks", to_json(r.tasks)}}));
    return exit_code::success;
  }
  if (r.tasks.empty()) {
    c.out.print("The store has " + no_evaluations(o.precision) + ".\n");
    return exit_code::success;
  }
  std::string text;
  for (const auto& line : split_lines(print_title(r)))
    text += (text.empty() ? c.out.bold(line) : c.out.dim(wrap(line, c.out.width, 0))) + "\n";
  text += "\n" + table_of_speedups(groups).text(c.out) + "\n" + table_of_shares(groups).text(c.out) + "\n";
  if (const auto models = print_models(r, c.out); !models.empty()) text += models + "\n";
  if (exportable) text += wrap(print_exportable(*exportable), c.out.width, 0) + "\n";
  for (const auto& line : split_lines(print_against(r)))
    text += wrap(line, c.out.width, 0) + "\n";
  for (const auto& remark :
       {print_ill_conditioned(r), print_in_parts(r), print_in_half_precision(r), print_unconfirmed(r)})
    if (!remark.empty()) text += wrap(remark, c.out.width, 0) + "\n";
  if (estimates) text += wrap(print_estimates(*estimates), c.out.width, 0) + "\n";
  text += c.out.dim(wrap(legend(r, groups.front().over), c.out.width, 0)) + "\n";
  c.out.print(text);
  return exit_code::success;
}

void add_report(CLI::App& app, context& c) {
  auto o = std::make_shared<report_options>();
  auto* sub =
      app.add_subcommand("report", "the speedups that a search reached: over all tasks, by level and by family");
  sub->add_option("--experiment", o->experiment, "of this experiment only, as in e3")->type_name("EXPERIMENT");
  add_against_option(*sub, o->against, "eager where it was measured, else program");
  auto* exportable =
      sub->add_flag("--exportable", o->exportable,
                    "count only variants whose exported file was checked and is as KernelBench wants it");
  sub->add_option("--comparison", o->comparison,
                  "of the arms of a plan: the folder that `cudal1 compare --plan` made, with the plan's hash and what "
                  "deviated from it")
      ->type_name("DIR")
      ->excludes(exportable);
  auto* as_json = sub->add_flag("--json", o->json, "one JSON document, with the results of each task");
  add_csv_flag(*sub, c, o->json, {"tasks"});
  auto* precision = add_precision_option(*sub, o->precision,
                                         "half: what was accepted in half precision; strict: what was held to strict "
                                         "float32 (default: all but half)")
                        ->excludes(sub->get_option("--experiment"));
  sub->add_option("--html", o->files.html,
                  "write one page that needs no network: tables, charts, and a section for each task")
      ->type_name("FILE")
      ->excludes(as_json)
      ->excludes(precision)
      ->excludes(exportable);
  sub->add_option("--plots", o->files.plots, "write each chart of that page as an SVG file")
      ->type_name("DIR")
      ->excludes(as_json)
      ->excludes(precision)
      ->excludes(exportable);
  sub->add_option("--tables", o->files.tables, "write each table of that page as a CSV file")
      ->type_name("DIR")
      ->excludes(as_json)
      ->excludes(precision)
      ->excludes(exportable);
  sub->add_option("--evaluator", o->files.evaluator,
                  "results of `cudal1 bench evaluator`, shown in the page and its tables beside ours")
      ->type_name("FILE");
  sub->footer(footer(
      "  cudal1 report --experiment e1\n"
      "  cudal1 report --experiment e1 --html e1.html    a page to look at and to send\n"
      "  cudal1 report --experiment e1 --against eager   what KernelBench reports; `cudal1 baseline` measures it\n"
      "  cudal1 report --against compile --json\n"
      "  cudal1 report --comparison arms                 the arms of a plan, as far as they were measured\n"
      "  cudal1 report --exportable                      of what `cudal1 export --format kernelbench` has checked",
      "  0    printed\n"
      "  2    there is no such experiment, or no store yet\n"
      "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, report(*o, c)); });
}

const command_registration registered_report(60, add_report);

}  // namespace

}  // namespace cudal1::cli
