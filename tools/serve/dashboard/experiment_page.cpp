// One experiment, the tasks, and one task.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "sandbox/program/task.hpp"
#include "tools/charts/escape.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/page/html_page.hpp"
#include "tools/cli/page/html_text.hpp"
#include "tools/cli/page/page_charts.hpp"
#include "tools/cli/report/lineage.hpp"
#include "tools/cli/task_source.hpp"
#include "tools/serve/dashboard/pages.hpp"
#include "tools/serve/dashboard/variant_rows.hpp"
#include "tools/serve/url_text.hpp"

namespace cudal1::serve {

using charts::escaped;

namespace {

constexpr std::size_t variants_on_task = 12, events_on_experiment = 10;

std::string limits_text(const experiment_record& e) {
  std::vector<std::string> parts;
  if (e.evaluations_per_task > 0)
    parts.push_back(cli::format_count(e.evaluations_per_task, "evaluation") + " of each task");
  if (e.device_s_per_task > 0)
    parts.push_back(cli::format_time(e.device_s_per_task * 1e6) + " of device time for each task");
  if (e.time_limit_s > 0) parts.push_back(cli::format_clock(e.time_limit_s) + " in all");
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string experiment_title(const page_input& in, const experiment_record& e) {
  const auto* running = in.now->running(e.id);
  if (running == nullptr)
    return e.id + (e.state == experiment_state::running ? " was interrupted" : " is " + enum_name(e.state));
  const auto left = cli::remaining_s(running->progress, running->limits);
  if (!left) return e.id + " runs, without a limit";
  return fmt::format("{} is {:.0f}% done, {} left", e.id, 100 * cli::share_done(running->progress, running->limits),
                     cli::format_clock(*left));
}

std::string stop_form(const page_input& in, const experiment_record& e) {
  if (in.now->running(e.id) == nullptr) return "";
  if (!in.viewer.may("stop")) return permission_note(in.viewer, "stop", "stop it");
  return "<details class=\"more\"><summary>Stop this search</summary>\n" +
         cli::paragraph(
             "What is on a device is finished, and everything is kept. `cudal1 run --resume` goes on with it.") +
         form_of(in.viewer, experiment_path(e.id) + "/stop",
                 fmt::format("<button class=\"danger\">Stop {}</button>", escaped(e.id))) +
         "</details>\n";
}

std::string experiment_figures(const cli::page_data& page) {
  const auto& r = page.report;
  if (r.evaluations == 0) return "";
  const auto reached = std::ranges::count_if(r.tasks, &cli::best_row::is_reached);
  int64_t failed = 0;
  for (const auto& f : page.failures)
    failed += f.count;
  return figures_of(
      {{"tasks faster than their own program by more than the 95% interval",
        fmt::format("{} of {}", r.beat_reference, reached)},
       {fmt::format("geometric mean, {}", cli::format_count(reached, "task")), cli::format_speedup(r.geometric_mean)},
       {failed > 0 ? fmt::format("evaluations; {} failed", failed) : "evaluations; none failed",
        std::to_string(r.evaluations)}});
}

std::string drawn_chart(const std::optional<cli::page_chart>& chart) {
  return chart ? cli::html_of(*chart) : "";
}

// Its best variant's details, as the report has them.
expected<cli::task_page> read_task_page(const page_input& in, const task_record& record) {
  cli::task_page t;
  CUDAL1_TRY(t.row, in.data.row_of_task(in.records(), record.id));
  t.summary = record.summary;
  const auto parsed = read_task(record.text, record.profile);
  if (parsed && parsed->origin) t.origin = cli::origin_text(*parsed->origin);
  const auto counts = in.records().counts();
  if (const auto found = counts.find(record.id); found != counts.end()) t.outcomes = found->second.outcomes;
  constexpr std::size_t most_curves = 6;
  for (const auto& [experiment, curve] : in.data.variants().curves_of_task(record.id)) {
    const auto* e = in.records().experiment(experiment);
    if (e != nullptr && e->policy != hand_policy) t.curves.push_back({experiment, curve.points, curve.verdicts});
  }
  // The newest: a longer number is a later one.
  std::ranges::sort(t.curves, [](const auto& a, const auto& b) {
    return std::pair(a.name.size(), a.name) < std::pair(b.name.size(), b.name);
  });
  if (t.curves.size() > most_curves) t.curves.erase(t.curves.begin(), t.curves.end() - most_curves);
  const std::string id = !t.row.variant.empty() ? t.row.variant : t.row.unconfirmed ? t.row.unconfirmed->variant : "";
  CUDAL1_CHECK(in.data.with_store([&](store& s) -> expected<void> {
    CUDAL1_TRY(const auto all, s.baselines_of_task(record.id));
    for (const auto kind : baseline_kinds)
      for (auto b = all.rbegin(); b != all.rend(); ++b)
        if (b->kind == kind && b->environment_id == t.row.environment_id) {
          t.baselines.push_back(*b);
          break;
        }
    if (id.empty()) return {};
    CUDAL1_TRY(t.variant, s.get_variant(id));
    CUDAL1_TRY(t.result, cli::counting_verdict(s, record.id, id));
    CUDAL1_TRY(t.lineage, cli::lineage_of(s, *t.variant));
    return {};
  }));
  return t;
}

std::string start_link(const task_record& t) {
  return "<p class=\"actions\"><a href=\"/start?tasks=" + url_escaped(t.name) +
         "\">Search for faster variants</a></p>\n";
}

}  // namespace

expected<page_parts> experiment_page(const page_input& in) {
  const auto id = in.call.text("experiment");
  const auto* e = in.records().experiment(id);
  if (e == nullptr) return fail(errc::not_found, "there is no experiment {}", id);
  CUDAL1_TRY(const auto page, charts_data(in, id));
  std::string head = page_title(experiment_title(in, *e));
  if (e->pruned_unix_ms > 0)
    head += cli::paragraph("It was pruned on " + cli::format_date(e->pruned_unix_ms) + ": the best variants are left.",
                           "state");
  if (const auto* running = in.now->running(id))
    head += progress_of(in, *running);
  else if (e->state == experiment_state::running)
    head +=
        cli::paragraph(fmt::format("The node does not run it. `cudal1 run --resume {}` goes on with it.", id), "state");
  std::string models = fmt::format("{}", fmt::join(e->models, ", "));
  head += index_note(in) + experiment_figures(page) +
          facts_of({{"Policy", fmt::format("{}, seed {}", e->policy, e->seed)},
                    {"Device", e->model.empty() ? e->device : e->device + ": " + e->model},
                    {"Limits", limits_text(*e)},
                    {"Searched", fmt::format("{}; {} of search", cli::format_date(e->created_unix_ms),
                                             cli::format_clock(e->active_s))},
                    {"Language models", models}});
  auto tasks = linked_task_table(in, page);
  const auto events = event_table(in, events_on_experiment, id, 120);
  const bool any = page.report.evaluations > 0;
  return page_parts{id, "/experiments",
                    live_part("head", head) + stop_form(in, *e) +
                        (any ? link_line("/variants?experiment=" + id, "All its variants") : "") +
                        live_section("progress", "Best so far", drawn_chart(cli::progress_chart(page))) +
                        live_section("speedups", "Speedups", drawn_chart(cli::speedup_chart(page))) +
                        live_section("task-part", "Tasks", shown_table(tasks)) +
                        live_section("failed", "Verdicts by class", failures_of(in, page)) +
                        live_section("log", "Its newest events", shown_table(events))};
}

expected<page_parts> tasks_page(const page_input& in) {
  CUDAL1_TRY(const auto page, charts_data(in, ""));
  const auto table = linked_task_table(in, page);
  return page_parts{"Tasks", "/tasks",
                    page_title("Tasks") +
                        live_part("task-part", table.empty() ? cli::paragraph("No task was evaluated yet.", "state")
                                                             : shown_table(table)) +
                        "<p class=\"actions\"><a href=\"/start\">Start a search</a></p>\n"};
}

expected<page_parts> one_task_page(const page_input& in) {
  const auto id = in.call.text("task");
  const auto found = in.records().tasks.find(id);
  if (found == in.records().tasks.end()) return fail(errc::not_found, "the store has no task {}", id);
  const auto& record = found->second;
  CUDAL1_TRY(const auto t, read_task_page(in, record));
  CUDAL1_TRY(const auto ranked,
             in.data.with_store([&](store& s) { return s.best(id, variants_on_task, store::ranking::all, ""); }));
  cli::data_table best{
      "ranking",
      "The best correct variants.",
      {{"variant"}, {"speedup", true}, {"95% interval", true}, {"confirmed"}, {"experiment"}, {"moves", false, true}},
      {}};
  for (const auto& [result, variant] : ranked)
    best.rows.push_back({variant_cell(variant.id),
                         {cli::format_speedup(result.score)},
                         {fmt::format("{} to {}", cli::format_number(result.score_interval.low),
                                      cli::format_number(result.score_interval.high))},
                         {result.confirmed ? "yes" : "no"},
                         experiment_cell(variant.experiment),
                         {moves_text(variant)}});
  const auto& row = t.row;
  std::string head = page_title(record.name, record.family.empty() ? "Task" : "Task, " + record.family);
  if (row.reference_us > 0)
    head += figures_of({{row.is_reference ? "no faster variant was confirmed" : "speedup over its own program",
                         cli::format_speedup(row.speedup)},
                        {"reference", cli::format_time(row.reference_us)},
                        {row.is_reference ? "best" : "best variant", cli::format_time(row.best_us)},
                        {"floor, estimated", cli::format_time(row.floor_us)}});
  else
    head +=
        cli::paragraph(row.evaluations == 0 ? "It was not evaluated yet." : "No variant of it was correct.", "state");
  return page_parts{
      record.name, "/tasks",
      live_part("head", head + index_note(in)) + start_link(record) +
          live_section("best", row.is_reference && t.variant ? "The best unconfirmed variant" : "The best variant",
                       cli::task_body(t, 1, 3)) +
          live_section("ranking-part", "Ranking",
                       best.empty()
                           ? ""
                           : shown_table(best) + link_line("/variants?task=" + url_escaped(id), "All its variants")) +
          (best.empty() && row.evaluations > 0 ? link_line("/variants?task=" + url_escaped(id), "All its variants")
                                               : "")};
}

}  // namespace cudal1::serve
