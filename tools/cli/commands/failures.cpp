// cudal1 failures: lists the verdicts that only a bug of cudal1 explains.
#include <algorithm>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/move_failures.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/stored_tasks.hpp"

namespace cudal1::cli {

namespace {

struct failures_options {
  std::string task;
  std::string experiment;
  std::size_t limit = 20;
  bool all = false;
  bool json = false;
};

expected<std::vector<task_record>> tasks_with_failures(store& s, const failures_options& o) {
  std::vector<task_record> tasks;
  if (!o.task.empty()) {
    CUDAL1_TRY(tasks.emplace_back(), find_task(s, o.task));
    return tasks;
  }
  if (o.experiment.empty()) return s.tasks();
  CUDAL1_TRY(const auto e, s.get_experiment(o.experiment));
  for (const auto& id : e.tasks) {
    CUDAL1_TRY(tasks.emplace_back(), s.get_task(id));
  }
  return tasks;
}

expected<bool> has_failures(store& s, const std::vector<task_record>& tasks, const failures_options& o) {
  for (const auto& t : tasks) {
    CUDAL1_TRY(const auto verdicts, s.verdicts_of_task(t.id, o.experiment));
    if (std::ranges::any_of(verdicts, [](const verdict& v) { return v.result != outcome::correct; })) return true;
  }
  return false;
}

expected<int> failures(const failures_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  if (!o.experiment.empty()) CUDAL1_CHECK(reader->get_experiment(o.experiment));
  CUDAL1_TRY(const auto tasks, tasks_with_failures(*reader, o));
  const auto causes = o.all ? shown_causes::all : shown_causes::bugs;
  std::vector<move_failure> all;
  for (const auto& t : tasks) {
    CUDAL1_TRY(auto found, move_failures(*reader, t, o.experiment, causes));
    all.insert(all.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  if (o.json) {
    print_json(c, json::make_object({{"failures", to_json(all)}}));
    return exit_code::success;
  }
  if (all.empty()) {
    CUDAL1_TRY(const bool any, has_failures(*reader, tasks, o));
    c.out.print(!any    ? "None: no variant has failed.\n"
                : o.all ? "None: every variant that moves made is correct.\n"
                        : "None: every failed variant that moves made exceeded a limit, changed the precision or is of "
                          "an ill-conditioned task (--all lists them).\n");
    return exit_code::success;
  }
  c.out.print(print_move_failures(all, o.limit, c.out));
  c.out.print(c.out.dim(wrap(std::string(o.all ? "Each that is not explained" : "Each of these") +
                                 " shows a bug of cudal1. Next: `cudal1 show VARIANT`; with --program it prints the "
                                 "program, which `cudal1 evaluate` checks again.",
                             c.out.width)) +
              "\n");
  return exit_code::success;
}

void add_failures(CLI::App& app, context& c) {
  auto o = std::make_shared<failures_options>();
  auto* sub = app.add_subcommand("failures", "failed variants that only a bug of cudal1 explains");
  sub->add_option("task", o->task, "only of this task: its name or id")->type_name("TASK");
  sub->add_option("--experiment", o->experiment, "only of this experiment, as in e3")->type_name("EXPERIMENT");
  sub->add_option("-n", o->limit, "how many to print; --json has all")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{1}, std::size_t{100000}))
      ->capture_default_str();
  sub->add_flag("--all", o->all,
                "also those that a limit, the precision, an ill-conditioned task or the machine explains");
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"failures"});
  sub->footer(
      footer("  cudal1 failures\n"
             "  cudal1 failures softmax --experiment e3 --json\n"
             "  cudal1 failures --all                        also those with an explanation",
             "  0    printed, also if there are none\n"
             "  2    there is no such task or experiment, or no store yet\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, failures(*o, c)); });
}

const command_registration registered_failures(85, add_failures);

}  // namespace

}  // namespace cudal1::cli
