// What several answers to the same questions are worth: unbiased estimates of what any k of them would have given, and
// 95% intervals by bootstrap over tasks and seeds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <boost/describe.hpp>

namespace cudal1::cli {

// All answers of one arm to one task with one seed.
struct cell_scores {
  std::string task;
  uint64_t seed = 0;
  std::vector<double> scores = {};  // of each answer, in their order; 0 of one that failed
  // A search: each answer depends on those before it, and the first k are what k of them give; all, where it has found
  // fewer before its schedules were exhausted.
  bool is_search = false;

  int64_t answers() const { return static_cast<int64_t>(scores.size()); }
  int64_t correct() const;
};

// The probability that one of k answers, drawn without replacement, is correct: 1 - C(n - c, k) / C(n, k) of n answers
// with c correct ones (Chen et al., arXiv 2107.03374). None where there are fewer than k.
std::optional<double> correct_within(const cell_scores& cell, int64_t k);
// The mean logarithm of the best score of k answers, drawn without replacement, and of the reference, which is always
// there and has 1: from the order statistics. None where there are fewer than k.
std::optional<double> log_best_within(const cell_scores& cell, int64_t k);
// The mean score, a failed answer counting as 0. None without answers.
std::optional<double> mean_score(const cell_scores& cell);

struct estimate_95 {
  double value = 0, low = 0, high = 0;
};
BOOST_DESCRIBE_STRUCT(estimate_95, (), (value, low, high))

// A number of one cell.
using cell_number = std::function<std::optional<double>(const cell_scores&)>;

// The mean over tasks of the mean over their seeds, with the interval of 2,000 resamplings of tasks and, of each drawn
// task, of its seeds, with replacement; `random` begins them. None where no cell has the number.
std::optional<estimate_95> mean_over(std::span<const cell_scores> cells, const cell_number& number,
                                     uint64_t random = 1);
// The same of the difference of two arms on the same tasks and seeds; cells that only one has are left out.
std::optional<estimate_95> difference_over(std::span<const cell_scores> of, std::span<const cell_scores> to,
                                           const cell_number& number, uint64_t random = 1);
// exp() of all three: from mean logarithms to geometric means.
estimate_95 exponential(const estimate_95& e);

}  // namespace cudal1::cli
