// What a comparison of arms has shown so far, from its folder alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "tools/cli/arms/answer_statistics.hpp"
#include "tools/cli/arms/arm_records.hpp"
#include "tools/cli/arms/experiment_plan.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

// DIR/comparison.json: what was fixed when the comparison began. The plan is beside it, as DIR/plan.toml.
struct comparison_head {
  std::string plan;                            // SHA-256 of its bytes
  std::string model, model_id, profile;        // model_id: SHA-256 of its files
  std::vector<std::string> trained, held_out;  // names of tasks
  std::vector<std::string> task_ids;           // of all, sorted
};
BOOST_DESCRIBE_STRUCT(comparison_head, (), (plan, model, model_id, profile, trained, held_out, task_ids))

struct arm_at {
  int64_t samples = 0;
  std::optional<estimate_95> correct;  // probability that one of so many answers is correct
  std::optional<estimate_95> best;     // geometric mean of the best of so many and the reference; none: no evidence
};
BOOST_DESCRIBE_STRUCT(arm_at, (), (samples, correct, best))

// Of one task: over all seeds.
struct arm_task {
  std::string task;
  int64_t answers = 0, correct = 0;
  double best = 0;  // score; 0: no evidence
};
BOOST_DESCRIBE_STRUCT(arm_task, (), (task, answers, correct, best))

struct arm_row {
  answer_form form = answer_form::schedule;
  std::string arm;
  int64_t planned = 0, answers = 0, correct = 0;
  // Of the answers: those whose text has the form (none where that is not known of all), that break no rule of it, and
  // whose program was compiled.
  std::optional<int64_t> readable = 0;
  int64_t legal = 0, compiled = 0;
  int64_t copies = 0;               // correct answers that are a variant of their prompt
  int64_t programs = 0;             // distinct correct ones
  int64_t on_device = 0;            // evaluations
  std::optional<estimate_95> mean;  // score, a failed answer counting as 0
  std::vector<arm_at> at;
  // Its mean score and its best score of the most samples against the first arm of the form, on the same tasks and
  // seeds: a difference, and a ratio.
  std::optional<estimate_95> mean_difference, best_ratio;
  std::map<std::string, int64_t> outcomes, hacks;
  std::vector<std::string> reasons;  // of failures, the most frequent first, with their numbers
  std::vector<arm_task> tasks;
  double answer_tokens = 0, prompt_tokens = 0;  // means
};
BOOST_DESCRIBE_STRUCT(arm_row, (),
                      (form, arm, planned, answers, correct, readable, legal, compiled, copies, programs, on_device,
                       mean, at, mean_difference, best_ratio, outcomes, hacks, reasons, tasks, answer_tokens,
                       prompt_tokens))

struct comparison_report {
  comparison_head head;
  std::string name;
  std::vector<arm_row> rows;
  std::vector<arm_run> runs;
  std::map<std::string, arm_phase> time;  // by what it was spent on, over all runs
  std::vector<std::string> deviations;    // from the plan
  bool is_complete = false;
};
BOOST_DESCRIBE_STRUCT(comparison_report, (), (head, name, rows, runs, time, deviations, is_complete))

comparison_report report_of(const experiment_plan& plan, const comparison_head& head, const arm_records& records);
// Of a folder. errc::not_found where it has no comparison; errc::corrupt where its plan is no longer the one that it
// was begun with.
expected<comparison_report> read_comparison(const std::string& folder);

std::string text_of(const comparison_report& r, const terminal& t);

}  // namespace cudal1::cli
