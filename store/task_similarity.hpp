// How alike two tasks are: from whose variants exemplars are borrowed.
#pragma once

#include <map>
#include <string>

#include "store/store.hpp"

namespace cudal1 {

struct task_features {
  std::string family, profile;
  std::map<std::string, double> operators;  // how often the program has each
  double log2_elements = 0;                 // of all inputs and weights together
};

// errc::corrupt if the task's text has no steps.
expected<task_features> features_of(const task_record& t);

// 0 to 1. 0 for tasks of other profiles (other kinds of devices). Else
//   0.6 operators + 0.2 family + 0.2 size,
// where `operators` is the weighted Jaccard index of their counts, sum of the smaller over sum of the larger counts,
// each as 1 + log2(count) so that a network of 50 layers is like one of 5; `family` is 1 if it is the same; `size` is
// 1 / (1 + |difference of log2_elements| / 4).
double similarity(const task_features& a, const task_features& b);

// Less alike tasks lend nothing.
inline constexpr double least_similarity = 0.3;

}  // namespace cudal1
