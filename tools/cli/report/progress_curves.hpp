// How the best score of a search rose with its evaluations.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"

namespace cudal1::cli {

// After so many evaluations.
struct best_so_far {
  int64_t evaluations = 0;
  double best = 1;
  bool operator==(const best_so_far&) const = default;
};
BOOST_DESCRIBE_STRUCT(best_so_far, (), (evaluations, best))

// Adds a task's next verdict to its curve, where it raises it. `number`: of the verdict, from 1.
void extend_curve(std::vector<best_so_far>& curve, int64_t number, double score, bool confirmed);
// The highest confirmed score after each of a task's verdicts that raised it, from {0, 1} on. `verdicts`: oldest first.
std::vector<best_so_far> best_curve(const std::vector<verdict>& verdicts);

// The geometric mean of several tasks' curves by the evaluations of each task: only where it changes.
std::vector<best_so_far> mean_curve(const std::vector<std::vector<best_so_far>>& curves);

}  // namespace cudal1::cli
