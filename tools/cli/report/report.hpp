// Reports on one experiment or on the whole store: the rows and the summary that `run`, `best` and `export` show, as
// records, which `--json` prints unchanged.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/device/accuracy.hpp"
#include "store/store.hpp"
#include "tools/cli/report/against.hpp"
#include "tools/cli/report/assembled_rows.hpp"
#include "tools/cli/report/model_rows.hpp"
#include "tools/cli/report/speedup_statistics.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// A variant that is faster than the best one of a task by its whole interval, but was not confirmed.
struct unconfirmed_score {
  std::string variant;  // id
  double speedup = 1;
  interval speedup_interval{1, 1};
  std::string origin, schedule;
};
BOOST_DESCRIBE_STRUCT(unconfirmed_score, (), (variant, speedup, speedup_interval, origin, schedule))

// One task: its best confirmed variant that is faster than the reference, or the reference itself.
struct best_row {
  std::string task, name;  // id, name
  int64_t evaluations = 0, correct = 0;
  bool is_reference = true;  // no faster variant was confirmed: the times below are the reference's
  double reference_us = 0;   // 0: not timed yet
  double best_us = 0;
  double speedup = 1;
  interval speedup_interval{1, 1};
  bool beats_reference = false;  // by more than the interval: its lower end is above 1
  std::string variant;           // id; "" for the reference
  std::string origin, schedule;
  std::vector<std::string> explanation;
  std::string environment_id;
  // Device times; 0 if the device has no clock of its own, or nothing was timed.
  double reference_device_us = 0, best_device_us = 0;
  // Estimates from the device's specifications (roofline.hpp); 0 if those are unknown.
  double floor_us = 0, roof_us = 0;              // call time; device time
  std::string roof_limit;                        // memory, compute
  double roof_share = 0;                         // roof_us / best_device_us
  std::string family;                            // of the task
  int64_t level = 0;                             // KernelBench's; 0 for other tasks
  std::string uncompared;                        // why its model was not compared with it (task_origin); "" if it was
  std::optional<against_times> against;          // set by compare_with_base
  std::string remark;                            // why it has no result, or ended before its limits
  std::optional<unconfirmed_score> unconfirmed;  // does not count in any mean
  std::string ill_conditioned;  // why the task is, as the newest verdict that shows it says; "" if none does
  int64_t reference_parts = 1;  // of the batch, in which its own program was timed (verdict::reference_parts)
  std::string no_moves;         // "no move applies", where its search ended for that, or "no move but graph applies"
  std::string precision;        // "half" or "strict", where its variants were held to that (accuracy.hpp); else ""

  // A task whose evaluations have all failed has no times.
  bool is_reached() const { return evaluations > 0 || reference_us > 0; }
};
BOOST_DESCRIBE_STRUCT(best_row, (),
                      (task, name, evaluations, correct, is_reference, reference_us, best_us, speedup, speedup_interval,
                       beats_reference, variant, origin, schedule, explanation, environment_id, reference_device_us,
                       best_device_us, floor_us, roof_us, roof_limit, roof_share, family, level, uncompared, against,
                       remark, no_moves, unconfirmed, ill_conditioned, reference_parts, precision))

// One experiment of a search over several models.
struct search_member {
  std::string experiment, model;
};
BOOST_DESCRIBE_STRUCT(search_member, (), (experiment, model))

struct search_report {
  std::string experiment, state, policy, device;  // "" in a report on the whole store
  std::vector<environment> environments;          // of the rows
  std::vector<best_row> tasks;
  int64_t beat_reference = 0;
  double geometric_mean = 1;  // of the speedups of all timed tasks; those without a faster variant count as 1
  int64_t evaluations = 0;
  double active_s = 0, evaluations_per_s = 0;
  std::map<std::string, int64_t> outcomes;
  std::string last_unmeasurable;            // why the newest of those could not be measured
  int64_t move_failures = 0;                // verdicts that show a bug of cudal1 (move_failures.hpp)
  int64_t infrastructure_faults = 0;        // attempts that were lost and repeated
  int64_t unrecorded = 0;                   // attempts of which a replay device has no verdict
  std::map<std::string, double> stage_ms;   // total time of each stage
  int64_t devices = 0;                      // number of devices that the rows were measured on
  double device_busy = 0;                   // mean share of the active time that a device was in use; 0: unknown
  std::optional<double> gap_closed;         // share of the log gap to the floor, over the tasks that have a floor
  std::vector<std::string> unknown_models;  // GPUs without known specifications, so without floors
  std::string against;                      // the kind given to compare_with_base; "" if it was not called
  std::optional<speedup_summary> over;      // speedups over `against`, of all tasks
  double policy_wait = 0;                   // share of the active time in which only the policy's answers were missing
  int64_t reused = 0;                       // of the evaluations: verdicts of other experiments
  std::vector<model_row> models;            // of an experiment with language models
  std::string model;                        // of the experiment's devices
  std::vector<search_member> search;     // over several models: its experiments, the one that leads first; else empty
  std::vector<assembled_row> assembled;  // of an experiment that uses parts
  int64_t pruned_unix_ms = 0;            // when all but the best was removed; 0: never
  int64_t ill_conditioned = 0;           // tasks
  int64_t in_parts = 0;                  // tasks whose own program was timed in parts
  std::optional<double> geometric_mean_of_others;  // without those; nothing if there are none
  std::optional<speedup_summary> over_of_others;   // the same of `over`
  int64_t in_half_precision = 0;                   // tasks whose variants may multiply in half precision
  accuracy held = accuracy::own;                   // of a report on the whole store: what it is about
};
BOOST_DESCRIBE_STRUCT(search_report, (),
                      (experiment, state, policy, device, environments, tasks, beat_reference, geometric_mean,
                       evaluations, active_s, evaluations_per_s, outcomes, last_unmeasurable, move_failures,
                       infrastructure_faults, unrecorded, stage_ms, devices, device_busy, gap_closed, unknown_models,
                       against, over, policy_wait, reused, models, model, search, assembled, pruned_unix_ms,
                       ill_conditioned, in_parts, geometric_mean_of_others, over_of_others, in_half_precision, held))

// One experiment, with its tasks in its order.
expected<search_report> report_experiment(store& s, const std::string& experiment);
// All experiments and hand-written variants together, except those on replay devices: every evaluated task of the store
// but for parts of tasks (or the one with that name or id), sorted by name. `held`: of `strict` and `half` only what
// was held to that; else all but what was accepted in half precision.
expected<search_report> report_everything(store& s, const std::string& task = "", accuracy held = accuracy::own);
// The ranking that its rows are from, as store::best takes it.
std::string ranking_of(const search_report& r);

// The stored verdict of a summary, with gates, samples and notes. Errors: not_found.
expected<verdict> with_details(store& s, const verdict& summary);

// Compares every row with a kind of baseline, or with "program" (the speedup that the rows have already).
expected<void> compare_with_base(store& s, search_report& r, const std::string& kind);
// ... or with usual_base, where the kind is "".
expected<void> compare_with_base_or_usual(store& s, search_report& r, const std::string& kind);
task_speedup speedup_of_row(const best_row& row);
// How the variants that were not confirmed count, in one sentence; "" if there are none.
std::string print_unconfirmed(const search_report& r);
// What the mark of ill-conditioned tasks says, with the means without them; "" if there are none.
std::string print_ill_conditioned(const search_report& r);
// What the mark of tasks says whose own program does not fit the device; "" if there are none.
std::string print_in_parts(const search_report& r);

// What the mark of tasks says whose products may be in half precision; "" if there are none.
extern const char* const half_precision_legend;
std::string print_in_half_precision(const search_report& r);

// As many of a task's confirmed variants are looked at for the best one.
inline constexpr std::size_t looked_at_for_best = 8;

// The best confirmed variant of a task that is faster than its reference, of an experiment or ("") of all; not one that
// may be no faster, by the interval of its speedup, and takes longer on the device. Skips the task's own program, whose
// id is `own` and which may be in the store as a variant.
expected<std::optional<store::ranked>> best_faster_variant(store& s, const std::string& task, const std::string& own,
                                                           const std::string& experiment);

// Makes the row that of a variant.
void put_best(best_row& row, const store::ranked& r);

// The title (with the device), the table and the summary, for a terminal, a pipe or a file.
std::string print_report(const search_report& r, const terminal& t);
std::string print_title(const search_report& r);
std::string print_table(const search_report& r, const terminal& t);
std::string print_summary(const search_report& r);
// Explains the columns of a GPU's table and names GPUs without floors; "" for cpu.
std::string print_legend(const search_report& r);
// Explains the column that compare_with_base adds, and how to measure what it lacks; "" without one.
std::string print_against(const search_report& r);
// Mean time of each stage of an evaluation and its share of the device's time; "" if nothing was evaluated.
std::string print_stages(const search_report& r, const terminal& t);
std::string markdown_table(const search_report& r);
// What each language model reached, and what it took; "" if there are none.
std::string print_models(const search_report& r, const terminal& t);
// Predicted and measured times of what was put together from parts; "" if nothing was.
std::string print_assembled(const search_report& r, const terminal& t);

// "cpu: AMD EPYC ... (details)".
std::string describe_device(const environment& e);
// For cpu, the sentence that its timings say nothing about a GPU; else "".
std::string timing_remark(const std::string& device);

}  // namespace cudal1::cli
