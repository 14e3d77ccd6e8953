// What each language model of an experiment reached, and what its answers took.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "store/store.hpp"

namespace cudal1::cli {

struct model_row {
  std::string model;
  int64_t prompts = 0;  // groups
  int64_t tasks = 0;    // that it was asked about
  int64_t success = 0;  // of these: a correct variant
  int64_t faster = 0;   // of these: a confirmed variant that beats the reference by more than its interval
  int64_t evaluations = 0, correct = 0;
  double geometric_mean = 1;  // of its best confirmed speedup of each task; a task without one counts as 1
  double best = 0;            // the highest of these; 0 if there is none
  std::map<std::string, int64_t> outcomes;
  std::vector<std::string> reasons;  // of failures, the most frequent first, with their numbers
  answer_cost cost;
};
BOOST_DESCRIBE_STRUCT(model_row, (),
                      (model, prompts, tasks, success, faster, evaluations, correct, geometric_mean, best, outcomes,
                       reasons, cost))

// The rows in the order in which the models were first asked; empty for an experiment without models.
expected<std::vector<model_row>> models_of(store& s, const experiment_record& e);

}  // namespace cudal1::cli
