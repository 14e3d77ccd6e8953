// What the store says of an experiment, or of everything: the rows and the summary that `run`, `best` and `export`
// show. All of these are records, so `--json` prints them as they are.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "store/store.hpp"
#include "tools/cli/report/against.hpp"
#include "tools/cli/report/speedup_statistics.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// One task: its best confirmed variant that is faster than the reference, or the reference itself.
struct best_row {
  std::string task, name;  // id, name
  int64_t evaluations = 0, correct = 0;
  bool is_reference = true;  // nothing faster was confirmed: the figures below are the reference's
  double reference_us = 0;   // 0: nothing of this task was timed yet
  double best_us = 0;
  double speedup = 1;
  interval speedup_interval{1, 1};
  bool beats_reference = false;  // by more than the interval: its lower end is above 1
  std::string variant;           // id; "" for the reference
  std::string origin, schedule;
  std::vector<std::string> explanation;
  std::string environment_id;
  // Of a device with a clock of its own; 0 where it has none, or nothing was timed.
  double reference_device_us = 0, best_device_us = 0;
  // What the device's figures allow (roofline.hpp); 0 where they are not known.
  double floor_us = 0, roof_us = 0;      // call time; device time
  std::string roof_limit;                // memory, compute
  double roof_share = 0;                 // roof_us / best_device_us
  std::string family;                    // of the task: its kind
  int64_t level = 0;                     // of KernelBench; 0 where it is not one of its tasks
  bool has_source = false;               // a Python file that it was imported from
  std::optional<against_times> against;  // once put_against was called
};
BOOST_DESCRIBE_STRUCT(best_row, (),
                      (task, name, evaluations, correct, is_reference, reference_us, best_us, speedup, speedup_interval,
                       beats_reference, variant, origin, schedule, explanation, environment_id, reference_device_us,
                       best_device_us, floor_us, roof_us, roof_limit, roof_share, family, level, has_source, against))

struct search_report {
  std::string experiment, state, policy, device;  // "" where it is about everything in the store
  std::vector<environment> environments;          // that the rows were measured in
  std::vector<best_row> tasks;
  int64_t beat_reference = 0;
  double geometric_mean = 1;  // of the speedups of all tasks that were timed; 1 where the reference stands
  int64_t evaluations = 0;
  double active_s = 0, evaluations_per_s = 0;
  std::map<std::string, int64_t> outcomes;
  int64_t infrastructure_faults = 0;        // attempts that were lost and made again
  std::map<std::string, double> stage_ms;   // where the time went, summed
  int64_t devices = 0;                      // that the rows were measured on
  double device_busy = 0;                   // of each, the share of the active time; 0 where that is not known
  std::optional<double> gap_closed;         // of the log gap to the floor, over the tasks that have one
  std::vector<std::string> unknown_models;  // GPUs whose figures are not known: no floors
  std::string against;                      // the kind of put_against; "" without
  std::optional<speedup_summary> over;      // that; over all tasks
};
BOOST_DESCRIBE_STRUCT(search_report, (),
                      (experiment, state, policy, device, environments, tasks, beat_reference, geometric_mean,
                       evaluations, active_s, evaluations_per_s, outcomes, infrastructure_faults, stage_ms, devices,
                       device_busy, gap_closed, unknown_models, against, over))

// Of one experiment: its tasks, in its order.
expected<search_report> report_experiment(store& s, const std::string& experiment);
// Of all experiments and hand-written variants together: every task in the store that was evaluated (or the one whose
// name or id is given), by name.
expected<search_report> report_everything(store& s, const std::string& task = "");

// Compares every row with a kind of baseline, or with "program" (that is what the rows have already).
expected<void> put_against(store& s, search_report& r, const std::string& kind);
task_speedup speedup_of_row(const best_row& row);

// The best confirmed variant of a task that is faster than its reference, of an experiment or ("") of all. The task's
// own program, whose id is `own`, may be in the store as a variant; it is not called a find.
expected<std::optional<store::ranked>> best_find(store& s, const std::string& task, const std::string& own,
                                                 const std::string& experiment);

// The title (with the device), the table and the summary, for a terminal, a pipe or a file.
std::string print_report(const search_report& r, const terminal& t);
std::string print_title(const search_report& r);
std::string print_table(const search_report& r, const terminal& t);
std::string print_summary(const search_report& r);
// What the columns of a GPU's table mean, and what is not known; "" for cpu.
std::string print_legend(const search_report& r);
// Over what a column of put_against is, with what is missing and how to measure it; "" where there is none.
std::string print_against(const search_report& r);
// Mean time of each stage of an evaluation and its share of the device's; "" where nothing was evaluated.
std::string print_stages(const search_report& r, const terminal& t);
std::string markdown_table(const search_report& r);

// "cpu: AMD EPYC ... (details)" and, for cpu, the sentence that its timings say nothing about a GPU.
std::string describe_device(const environment& e);
std::string about_timings(const std::string& device);

// A task of the store by its name or its id (or a unique prefix of at least 4 digits). Of several versions of one name
// that which was evaluated last... is not known to the store, so several are an error that lists their ids.
expected<task_record> find_task(store& s, const std::string& name);

}  // namespace cudal1::cli
