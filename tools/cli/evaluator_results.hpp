// What KernelBench's own evaluator has said of exported files: the records that tools/python/evaluate_exports.py
// writes, and their summary.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "tools/cli/terminal.hpp"

namespace cudal1::cli {

enum class evaluator_verdict { accepted, refused, not_judged };
BOOST_DESCRIBE_ENUM(evaluator_verdict, accepted, refused, not_judged)

// Of one exported file.
struct evaluated_file {
  std::string task, id;            // name and id of the task
  int64_t level = 0, problem = 0;  // of KernelBench; 0: a model of the user's own
  std::string file;
  evaluator_verdict verdict = evaluator_verdict::not_judged;
  std::string why;                  // where it is not accepted
  double ms = 0, reference_ms = 0;  // of the file and of eager: means of device time, the caches emptied on main
  double speedup = 0;               // their ratio; 0 where it is not accepted
  double seconds = 0;               // that the evaluation took
  bool kept = false;                // from an earlier evaluation
  std::map<std::string, std::string> metadata;
};
BOOST_DESCRIBE_STRUCT(evaluated_file, (),
                      (task, id, level, problem, file, verdict, why, ms, reference_ms, speedup, seconds, kept,
                       metadata))

struct evaluator_results {
  std::string layout, fingerprint;  // of the checkout: "main" or "v0"; a hash of the evaluator's files
  int64_t trials = 0;               // timed calls
  int64_t files = 0;                // of the export: fewer tasks mean that the evaluation was interrupted
  std::string device, torch;
  std::vector<evaluated_file> tasks;
};
BOOST_DESCRIBE_STRUCT(evaluator_results, (), (layout, fingerprint, trials, files, device, torch, tasks))

struct evaluator_summary {
  std::string group;  // "all", "level 1"
  int64_t accepted = 0, refused = 0, not_judged = 0;
  double geometric_mean = 0, largest = 0;  // over the accepted, as KernelBench's analysis takes it; 0: none
  double fast_1 = 0, fast_15 = 0,
         fast_2 = 0;  // shares of all files that are accepted and more than 1, 1.5, 2 times as fast
  int64_t files() const { return accepted + refused + not_judged; }
};
BOOST_DESCRIBE_STRUCT(evaluator_summary, (),
                      (group, accepted, refused, not_judged, geometric_mean, largest, fast_1, fast_15, fast_2))

// errc::not_found, errc::io_error, errc::invalid_argument for another file.
expected<evaluator_results> read_evaluator_results(const std::string& file);
// "all" first, then the levels where there are any.
std::vector<evaluator_summary> summaries_of(const evaluator_results& r);
// A row for each file, then the counts and the geometric mean.
std::string evaluator_text(const evaluator_results& r, const terminal& t);
// The counts and the geometric mean, in one sentence.
std::string evaluator_sentence(const evaluator_results& r);
// "refused"; with why as "refused: ...".
std::string verdict_words(const evaluated_file& f);

}  // namespace cudal1::cli
