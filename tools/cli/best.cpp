// cudal1 best: the best variants that the store has.
#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report.hpp"
#include "tools/cli/table.hpp"

namespace cudal1::cli {

namespace {

struct best_options {
  std::string task;
  std::string experiment;
  int64_t limit = 10;
  bool json = false;
};

// One of the list of a task, without the raw samples: `show` has those.
struct ranked_row {
  int64_t rank = 0;
  std::string variant;
  double speedup = 0;
  interval speedup_interval;
  double reference_us = 0, variant_us = 0;
  bool confirmed = false;
  std::string origin, schedule, experiment, environment_id;
};
BOOST_DESCRIBE_STRUCT(ranked_row, (),
                      (rank, variant, speedup, speedup_interval, reference_us, variant_us, confirmed, origin, schedule,
                       experiment, environment_id))

expected<int> overview(store& s, const best_options& o, const context& c) {
  CUDAL1_TRY(const auto report, o.experiment.empty() ? report_everything(s) : report_experiment(s, o.experiment));
  if (o.json)
    print_json(c, to_json(report));
  else if (report.tasks.empty())
    c.out.print("The store has no evaluations yet; `cudal1 run` makes some.\n");
  else
    c.out.print(print_report(report, c.out));
  return exit_code::success;
}

void print_list(const task_record& task, const std::vector<ranked_row>& rows, const context& c) {
  c.out.print(c.out.bold(task.name) + (task.summary.empty() ? "" : ": " + task.summary) + "\n");
  if (rows.empty()) {
    c.out.print("No correct variant is in the store yet: the reference itself is the best.\n");
    return;
  }
  table t({{.title = "#", .right = true},
           {.title = "variant"},
           {.title = "speedup, 95% interval"},
           {.title = "reference", .right = true, .drop = 2},
           {.title = "variant time", .right = true, .drop = 1},
           {.title = "confirmed"},
           {.title = "moves", .least_width = 16, .drop = 3}});
  for (const auto& row : rows)
    t.add({std::to_string(row.rank), short_id(row.variant), format_speedup(row.speedup, row.speedup_interval),
           format_time(row.reference_us), format_time(row.variant_us), row.confirmed ? "yes" : "no",
           row.schedule.empty() ? row.origin : short_schedule(row.schedule)});
  c.out.print(t.text(c.out.width, c.out.color));
}

expected<int> best(const best_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  if (o.task.empty()) return overview(*reader, o, c);
  CUDAL1_TRY(const task_record task, find_task(*reader, o.task));
  CUDAL1_TRY(const auto found, reader->best(task.id, static_cast<std::size_t>(o.limit), false, o.experiment));
  std::vector<ranked_row> rows;
  std::vector<environment> environments;
  for (const auto& r : found) {
    rows.push_back({static_cast<int64_t>(rows.size()) + 1, r.variant.id, r.result.score, r.result.score_interval,
                    r.result.reference_us, r.result.variant_us, r.result.confirmed, r.variant.origin,
                    r.variant.schedule, r.variant.experiment, r.result.environment_id});
    bool known = false;
    for (const auto& e : environments)
      known = known || e.id == r.result.environment_id;
    if (known || r.result.environment_id.empty()) continue;
    CUDAL1_TRY(auto where, reader->get_environment(r.result.environment_id));
    environments.push_back(std::move(where));
  }
  if (o.json) {
    print_json(c, json::make_object({{"task", task.name},
                                     {"id", task.id},
                                     {"environments", to_json(environments)},
                                     {"variants", to_json(rows)}}));
    return exit_code::success;
  }
  print_list(task, rows, c);
  for (const auto& e : environments) {
    c.out.print(c.out.dim(wrap(describe_device(e), c.out.width)) + "\n");
    if (const auto about = about_timings(e.device); !about.empty()) c.out.print(c.out.dim(about) + "\n");
  }
  return exit_code::success;
}

}  // namespace

void add_best(CLI::App& app, context& c) {
  auto o = std::make_shared<best_options>();
  auto* sub = app.add_subcommand("best", "the best variant of each task in the store, or the best of one task");
  sub->add_option("task", o->task, "a task's name or id: lists its best correct variants")->type_name("TASK");
  sub->add_option("-n", o->limit, "how many of them")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->capture_default_str();
  sub->add_option("--experiment", o->experiment, "of this experiment only, as in e3")->type_name("EXPERIMENT");
  sub->add_flag("--json", o->json, "one JSON document");
  sub->footer(
      footer("  cudal1 best\n"
             "  cudal1 best softmax -n 3\n"
             "  cudal1 best --experiment e3 --json",
             "  0    printed\n"
             "  2    there is no such task or experiment, or no store yet\n"
             "  3    the store does not answer"));
  sub->callback([o, &c] { finish(c, best(*o, c)); });
}

}  // namespace cudal1::cli
