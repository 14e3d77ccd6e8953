// All that a page on one experiment, or on the whole store, shows: read from the store once, so that what makes text of
// it is free of errors and of input.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/counter_profile.hpp"
#include "tools/cli/evaluator_results.hpp"
#include "tools/cli/report/hack_report.hpp"
#include "tools/cli/report/lineage.hpp"
#include "tools/cli/report/progress_curves.hpp"
#include "tools/cli/report/report.hpp"
#include "tools/cli/report/speedup_groups.hpp"
#include "tools/cli/report/techniques.hpp"

namespace cudal1::cli {

// The speedups over one base, of all tasks and of groups.
struct base_groups {
  std::string base;  // against_names()
  std::vector<group_summary> groups;
  std::vector<double> speedups;  // of the measured tasks; 1 for one that is not faster
};

// One experiment's rise, or ("") that of all.
struct named_curve {
  std::string name;
  std::vector<best_so_far> points;
  int64_t evaluations = 0;  // the most of a task
};

// Failed variants of one outcome.
struct failure_class {
  std::string outcome;
  int64_t count = 0;
  std::string task, variant, reason;  // of the newest
};

struct task_page {
  best_row row;
  std::string variant_name = "best variant";  // in charts
  std::string summary, origin;
  std::vector<best_so_far> curve;
  std::vector<named_curve> curves;          // in its place: one for each experiment
  std::optional<variant_record> variant;    // the best one; else the one that was not confirmed
  std::optional<verdict> result;            // its verdict, with details
  std::optional<counter_profile> counters;  // of `variant` where `result` was measured, if it was profiled
  std::vector<lineage_step> lineage;
  std::vector<baseline_record> baselines;  // the newest of each kind, in one environment
  std::map<std::string, int64_t> outcomes;
};

struct page_data {
  search_report report;
  std::optional<experiment_record> experiment;
  std::vector<experiment_record> experiments;  // those that the page is about, without evaluations by hand
  std::vector<base_groups> bases;              // those that were measured, the task's own program first
  std::vector<named_curve> curves;
  std::vector<technique> techniques;
  std::vector<failure_class> failures;         // the most frequent first
  std::vector<hacks_of_class> hacks;           // of the experiment, or of all; the newest of each class
  std::vector<task_page> tasks;                // as in the report
  std::optional<evaluator_results> evaluator;  // of the exported files, where read_page()'s caller has them
  int64_t now_unix_ms = 0;
  std::string version;  // of cudal1; "" if unknown
};

inline constexpr std::size_t most_hacks_of_a_class = 20;

// `experiment`: "" for the whole store. `against`: what the headline and the bars are relative to (against_names()), ""
// for usual_base. Errors: of the store; errc::not_found for an unknown experiment.
expected<page_data> read_page(store& s, const std::string& experiment, const std::string& against = "");

}  // namespace cudal1::cli
