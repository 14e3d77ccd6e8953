// Rows of tasks for views that are redrawn: from the tallies and the rankings, so that their time does not depend on
// the number of verdicts.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "sandbox/program/task.hpp"
#include "store/store.hpp"
#include "tools/cli/report/floors.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

// Makes rows, and keeps them until the task has more verdicts. One thread at a time.
class quick_rows {
 public:
  // As report_experiment() and report_everything() make it, with these differences: where no faster variant is
  // confirmed, the reference's times are those beside the best correct variant, not medians over all verdicts; what
  // only single verdicts say (remarks, ill-conditioned tasks, parts of a batch) is missing. `counts`: the task's tally
  // in the experiment, or ("") the sum of all.
  expected<best_row> row(store& s, const task_record& t, const std::string& experiment, const tally_record& counts);

 private:
  struct task_facts {
    std::optional<task> parsed;  // nothing if the record cannot be read
  };
  expected<best_row> made(store& s, const task_record& t, const std::string& experiment, const tally_record& counts);
  const task_facts& facts_of(const task_record& t);

  struct kept_row {
    int64_t evaluations = 0;
    best_row row;
  };
  std::map<std::pair<std::string, std::string>, kept_row> rows_;  // by experiment and task
  std::map<std::string, task_facts> facts_;                       // by task
  floor_finder floors_;
};

// The sum of tallies of one task.
void add_tally(tally_record& sum, const tally_record& more);
// Numbers over the rows: geometric mean, tasks that beat their reference, evaluations, outcomes.
search_report summed_report(std::vector<best_row> rows, const std::vector<tally_record>& counts);

}  // namespace cudal1::cli
