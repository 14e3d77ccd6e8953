// cudal1 best: shows the best variants in the store.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "config/base/describe.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/program/task.hpp"
#include "store/ranking_scopes.hpp"
#include "tools/cli/command.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/precision_option.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/row_parts.hpp"
#include "tools/cli/report/stored_tasks.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/task_source.hpp"

namespace cudal1::cli {

namespace {

struct best_options {
  std::string task;
  std::string experiment, precision;
  std::string against;  // "": usual_base
  int64_t limit = 10;
  bool json = false;
};

// One variant in the ranking of a task, without the raw samples, which `show` prints.
struct ranked_row {
  int64_t rank = 0;
  std::string variant;
  double speedup = 0;
  interval speedup_interval;
  double reference_us = 0, variant_us = 0;
  bool confirmed = false;
  std::string origin, schedule, experiment, environment_id;
  double reference_device_us = 0, variant_device_us = 0;
  double floor_us = 0, roof_us = 0;  // as in best_row
  std::optional<against_times> against;
  std::string precision;  // as in best_row
};
BOOST_DESCRIBE_STRUCT(ranked_row, (),
                      (rank, variant, speedup, speedup_interval, reference_us, variant_us, confirmed, origin, schedule,
                       experiment, environment_id, reference_device_us, variant_device_us, floor_us, roof_us, against,
                       precision))

// On what is in rankings of its own: empty unless something was replayed into this store, or accepted in half
// precision.
expected<std::string> remark_on_others(store& s, const best_options& o) {
  CUDAL1_TRY(const auto experiments, s.experiments());
  std::string text;
  const auto newest = [&](auto is_other) { return std::find_if(experiments.rbegin(), experiments.rend(), is_other); };
  if (const auto e = newest([](const auto& x) { return x.device.starts_with(replay_prefix); }); e != experiments.rend())
    text += fmt::format("Replayed verdicts are not ranked with measured ones; `--experiment {}` shows them.\n", e->id);
  const auto is_half = [](const auto& x) { return x.accuracy == enum_name(accuracy::half); };
  if (o.precision != "half" && newest(is_half) != experiments.rend())
    text += "What was accepted in half precision is not ranked with others; `--precision half` shows it.\n";
  return text;
}

expected<int> overview(store& s, const best_options& o, const context& c) {
  CUDAL1_TRY(auto report, o.experiment.empty() ? report_everything(s, "", accuracy_named(o.precision))
                                               : report_experiment(s, o.experiment));
  CUDAL1_CHECK(compare_with_base_or_usual(s, report, o.against));
  if (o.json) {
    print_json(c, to_json(report));
    return exit_code::success;
  }
  if (report.tasks.empty())
    c.out.print("The store has " + no_evaluations(o.precision) + ".\n");
  else
    c.out.print(print_report(report, c.out));
  if (o.experiment.empty()) {
    CUDAL1_TRY(const std::string remark, remark_on_others(s, o));
    c.out.print(c.out.dim(remark));
  }
  return exit_code::success;
}

void print_list(const task_record& task, const std::vector<ranked_row>& rows, const context& c) {
  const auto read = read_task(task.text, task.profile);
  c.out.print(c.out.bold(read ? marked_name(*read) : task.name) + (task.summary.empty() ? "" : ": " + task.summary) +
              "\n");
  if (rows.empty()) {
    c.out.print("The store has no correct variant yet: the reference itself is the best.\n");
    return;
  }
  // Columns of device time and roof, if there are any.
  const bool on_gpu = std::any_of(rows.begin(), rows.end(),
                                  [](const ranked_row& r) { return r.variant_device_us > 0 || r.roof_us > 0; });
  std::vector<column> columns = {{.title = "#", .right = true}, {.title = "variant"}};
  const bool has_base = rows.front().against.has_value();
  if (has_base) {
    columns.push_back({.title = "over " + rows.front().against->kind});
    columns.push_back({.title = rows.front().against->kind, .right = true});
  }
  columns.insert(columns.end(), {{.title = "speedup, 95% interval"},
                                 {.title = "reference", .right = true, .drop = 2},
                                 {.title = "variant time", .right = true, .drop = 1}});
  if (on_gpu) {
    columns.push_back({.title = "device time", .right = true, .drop = 4});
    columns.push_back({.title = "roof", .right = true, .drop = 5});
  }
  columns.push_back({.title = "confirmed"});
  columns.push_back({.title = "moves", .least_width = 16, .drop = 3});
  table t(std::move(columns));
  for (const auto& row : rows) {
    std::vector<std::string> cells = {std::to_string(row.rank), short_id(row.variant)};
    if (has_base) {
      cells.push_back(format_against(*row.against));
      cells.push_back(format_time(row.against->base_us));
    }
    const auto speedup = format_speedup(row.speedup, row.speedup_interval) + (row.precision == "half" ? " ½" : "");
    cells.insert(cells.end(), {speedup, format_time(row.reference_us), format_time(row.variant_us)});
    if (on_gpu) {
      cells.push_back(format_time(row.variant_device_us));
      cells.push_back(format_share(row.roof_us, row.variant_device_us));
    }
    cells.push_back(row.confirmed ? "yes" : "no");
    cells.push_back(row.schedule.empty() ? row.origin : short_schedule(row.schedule));
    t.add(std::move(cells));
  }
  c.out.print(t.text(c.out));
}

// Python files by others, without their sources.
json files_json(const std::vector<judged_file>& files) {
  json::array all;
  for (judged_file f : files) {
    f.source.clear();
    all.push_back(to_json(f));
  }
  return json(std::move(all));
}

void print_files(const std::vector<judged_file>& files, const context& c) {
  if (files.empty()) return;
  table t({{.title = "Python files by others"},
           {.title = "language", .drop = 2},
           {.title = "over eager, 95% interval"},
           {.title = "eager", .right = true, .drop = 3},
           {.title = "its time", .right = true, .drop = 1},
           {.title = "verdict", .least_width = 16}});
  for (const auto& f : files)
    t.add({f.name, f.language, f.correct ? format_speedup(f.speedup, f.speedup_interval) : "-",
           f.correct ? format_time(f.eager_us) : "-", f.correct ? format_time(f.own_us) : "-",
           f.correct ? "correct" : f.kind + ": " + f.why});
  c.out.print("\n" + t.text(c.out));
  c.out.print(
      c.out.dim(wrap("Files are timed in calls from Python, beside eager mode: their speedups do not compare with "
                     "those of variants.",
                     c.out.width)) +
      "\n");
}

ranked_row row_of(const store::ranked& r, int64_t rank) {
  ranked_row row;
  row.rank = rank;
  row.variant = r.variant.id;
  row.speedup = r.result.score;
  row.speedup_interval = r.result.score_interval;
  row.reference_us = r.result.reference_us;
  row.variant_us = r.result.variant_us;
  row.confirmed = r.result.confirmed;
  row.origin = r.variant.origin;
  row.schedule = r.variant.schedule;
  row.experiment = r.variant.experiment;
  row.environment_id = r.result.environment_id;
  row.reference_device_us = r.result.reference_device_us;
  row.variant_device_us = r.result.variant_device_us;
  return row;
}

expected<void> put_floors(std::vector<ranked_row>& rows, const task_record& record,
                          const std::vector<environment>& environments) {
  const auto t = read_task(record.text, record.profile);
  if (!t) return {};
  floor_finder floors;
  for (auto& row : rows)
    for (const auto& e : environments) {
      if (e.id != row.environment_id || !traits_of(e.device).is_accelerator) continue;
      CUDAL1_TRY(const auto roof, floors.of(*t, e.model));
      if (!roof) continue;
      row.floor_us = roof->call_us();
      row.roof_us = roof->device_us();
    }
  return {};
}

expected<void> put_base(store& s, std::vector<ranked_row>& rows, const task_record& task, std::string kind) {
  if (kind.empty()) {
    CUDAL1_TRY(kind, usual_base(s, std::vector{task.id}));
  }
  if (kind == against_program) return {};  // the rows have it already
  CUDAL1_TRY(const auto records, s.baselines_of_task(task.id));
  environment_finder environments(s);
  for (auto& row : rows)
    row.against = compare(records, kind, {row.variant, row.environment_id, row.variant_us, row.variant_device_us},
                          [&](const std::string& id) { return environments.of(id); });
  return {};
}

// Explains the two columns of the base, and what to do if they are empty.
std::string base_legend(const std::vector<ranked_row>& rows) {
  std::string text;
  const auto has = [&](auto what) {
    return std::any_of(rows.begin(), rows.end(), [&](const auto& r) { return r.against && what(*r.against); });
  };
  if (has([](const against_times& a) { return a.speedup > 0 && !a.beside; }))
    text += "* not measured together with this variant, whose time is from its stored verdict.\n";
  std::set<std::string> notes;
  for (const auto& r : rows)
    if (r.against) notes.insert(r.against->notes.begin(), r.against->notes.end());
  for (const auto& note : notes)
    text += fmt::format("{}: {}\n", rows.front().against->kind, note);
  for (const auto& r : rows)
    if (r.against && r.against->problem == "not measured")
      return text + fmt::format("{} was not measured here: use `cudal1 baseline --kinds {}`.\n", r.against->kind,
                                r.against->kind);
  for (const auto& r : rows)
    if (r.against && !r.against->problem.empty())
      return text + fmt::format("{} has no time: {}\n", r.against->kind, r.against->problem);
  return text;
}

expected<int> best(const best_options& o, context& c) {
  CUDAL1_TRY(const auto reader, open_for_reading(c));
  if (o.task.empty()) return overview(*reader, o, c);
  CUDAL1_TRY(const auto versions, versions_of_task(*reader, o.task));
  const task_record& task = versions.front().task;
  CUDAL1_TRY(const auto found,
             reader->best(task.id, static_cast<std::size_t>(o.limit), store::ranking::all,
                          o.experiment.empty() ? ranking_scope_of(accuracy_named(o.precision)) : o.experiment));
  std::vector<ranked_row> rows;
  std::vector<environment> environments;
  for (const auto& r : found) {
    rows.push_back(row_of(r, static_cast<int64_t>(rows.size()) + 1));
    if (r.result.environment_id.empty()) continue;
    auto where = std::ranges::find(environments, r.result.environment_id, &environment::id);
    if (where == environments.end()) {
      CUDAL1_TRY(auto read, reader->get_environment(r.result.environment_id));
      where = environments.insert(where, std::move(read));
    }
    rows.back().precision = precision_of(*where);
  }
  CUDAL1_CHECK(put_floors(rows, task, environments));
  CUDAL1_CHECK(put_base(*reader, rows, task, o.against));
  std::vector<judged_file> files;
  if (o.experiment.empty()) {
    CUDAL1_TRY(files, reader->judged_files(task.id));
    if (std::ssize(files) > o.limit) files.resize(static_cast<std::size_t>(o.limit));
  }
  if (o.json) {
    print_json(c, json::make_object({{"task", task.name},
                                     {"id", task.id},
                                     {"environments", to_json(environments)},
                                     {"variants", to_json(rows)},
                                     {"files", files_json(files)}}));
    return exit_code::success;
  }
  print_list(task, rows, c);
  print_files(files, c);
  for (const auto& r : found) {
    if (r.result.ill_conditioned.empty()) continue;
    c.out.print(wrap("This task is ill-conditioned: " + r.result.ill_conditioned + ".", c.out.width) + "\n");
    break;
  }
  for (const auto& r : found) {
    if (r.result.reference_parts == 1) continue;
    c.out.print(wrap(fmt::format("This task's own program was timed in {} parts of its batch: as a whole it needs more "
                                 "memory than a runner has.",
                                 r.result.reference_parts),
                     c.out.width) +
                "\n");
    break;
  }
  if (std::ranges::any_of(rows, [](const ranked_row& r) { return r.precision == "half"; }))
    c.out.print(wrap(half_precision_legend, c.out.width) + "\n");
  if (versions.size() > 1) c.out.print(c.out.dim(wrap(versions_text(versions), c.out.width)) + "\n");
  if (o.experiment.empty()) {
    CUDAL1_TRY(const std::string remark, remark_on_others(*reader, o));
    c.out.print(c.out.dim(remark));
  }
  c.out.print(base_legend(rows));
  for (const auto& e : environments) {
    c.out.print(c.out.dim(wrap(describe_device(e), c.out.width)) + "\n");
    if (const auto about = timing_remark(e.device); !about.empty()) c.out.print(c.out.dim(about) + "\n");
  }
  return exit_code::success;
}

void add_best(CLI::App& app, context& c) {
  auto o = std::make_shared<best_options>();
  auto* sub = app.add_subcommand("best", "the best variant of each task in the store, or the best of one task");
  sub->add_option("task", o->task, "a task's name or id: lists its best correct variants")->type_name("TASK");
  sub->add_option("-n", o->limit, "how many variants to list")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{100000}))
      ->capture_default_str();
  sub->add_option("--experiment", o->experiment, "of this experiment only, as in e3")->type_name("EXPERIMENT");
  add_precision_option(*sub, o->precision,
                       "half: what was accepted in half precision; strict: what was held to strict float32 (default: "
                       "all but half)")
      ->excludes(sub->get_option("--experiment"));
  add_against_option(*sub, o->against, "eager where it was measured, else program");
  sub->add_flag("--json", o->json, "one JSON document");
  add_csv_flag(*sub, c, o->json, {"tasks", "variants"});
  sub->footer(
      footer("  cudal1 best\n"
             "  cudal1 best --against eager\n"
             "  cudal1 best softmax -n 3\n"
             "  cudal1 best --experiment e3 --json",
             "  0    printed\n"
             "  2    there is no such task or experiment, or no store yet\n"
             "  3    the store cannot be read"));
  sub->callback([o, &c] { finish(c, best(*o, c)); });
}

const command_registration registered_best(50, add_best);

}  // namespace

}  // namespace cudal1::cli
