#include "tools/cli/arms/answer_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "config/base/split_mix.hpp"

namespace cudal1::cli {

namespace {

constexpr std::size_t resamplings = 2000;
constexpr double low_share = 0.025, high_share = 0.975;

double log_of(double score) {
  return std::log(std::max(1.0, score));
}

// C(n, k) / C(m, k) for n <= m; 0 where n < k.
double ratio_of_choices(int64_t n, int64_t m, int64_t k) {
  double out = 1;
  for (int64_t i = 0; i < k; ++i)
    out *= static_cast<double>(n - i) / static_cast<double>(m - i);
  return n < k ? 0 : out;
}

// A task's number for each of its seeds.
using seeds_of_task = std::vector<double>;

std::size_t below(std::size_t n, uint64_t& state) {
  state += split_mix_step;
  return static_cast<std::size_t>(split_mix(state) % n);
}

std::optional<estimate_95> resampled(const std::vector<seeds_of_task>& tasks, uint64_t random) {
  if (tasks.empty()) return std::nullopt;
  const auto mean = [](const seeds_of_task& v) {
    return std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size());
  };
  double sum = 0;
  for (const auto& t : tasks)
    sum += mean(t);
  uint64_t state = split_mix(random);
  std::vector<double> means;
  means.reserve(resamplings);
  for (std::size_t r = 0; r < resamplings; ++r) {
    double total = 0;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const auto& seeds = tasks[below(tasks.size(), state)];
      double of_task = 0;
      for (std::size_t s = 0; s < seeds.size(); ++s)
        of_task += seeds[below(seeds.size(), state)];
      total += of_task / static_cast<double>(seeds.size());
    }
    means.push_back(total / static_cast<double>(tasks.size()));
  }
  std::ranges::sort(means);
  const auto at = [&](double share) { return means[static_cast<std::size_t>(std::lround(share * (resamplings - 1)))]; };
  return estimate_95{sum / static_cast<double>(tasks.size()), at(low_share), at(high_share)};
}

std::vector<seeds_of_task> by_task(const std::map<std::string, seeds_of_task>& all) {
  std::vector<seeds_of_task> out;
  for (const auto& [name, numbers] : all)
    out.push_back(numbers);
  return out;
}

}  // namespace

int64_t cell_scores::correct() const {
  return std::ranges::count_if(scores, [](double s) { return s > 0; });
}

std::optional<double> correct_within(const cell_scores& cell, int64_t k) {
  const int64_t n = cell.answers();
  if (cell.is_search && n > 0) k = std::min(k, n);
  if (k < 1 || n < k) return std::nullopt;
  if (cell.is_search) return std::any_of(cell.scores.begin(), cell.scores.begin() + k, [](double s) { return s > 0; });
  return 1 - ratio_of_choices(n - cell.correct(), n, k);
}

std::optional<double> log_best_within(const cell_scores& cell, int64_t k) {
  const int64_t n = cell.answers();
  if (cell.is_search && n > 0) k = std::min(k, n);
  if (k < 1 || n < k) return std::nullopt;
  if (cell.is_search) return log_of(*std::max_element(cell.scores.begin(), cell.scores.begin() + k));
  auto sorted = cell.scores;
  std::ranges::sort(sorted);
  // The i-th smallest is the largest of k with probability C(i - 1, k - 1) / C(n, k) = k / i C(i, k) / C(n, k).
  double sum = 0;
  for (int64_t i = k; i <= n; ++i)
    sum += log_of(sorted[static_cast<std::size_t>(i - 1)]) * static_cast<double>(k) / static_cast<double>(i) *
           ratio_of_choices(i, n, k);
  return sum;
}

std::optional<double> mean_score(const cell_scores& cell) {
  if (cell.scores.empty()) return std::nullopt;
  return std::accumulate(cell.scores.begin(), cell.scores.end(), 0.0) / static_cast<double>(cell.answers());
}

std::optional<estimate_95> mean_over(std::span<const cell_scores> cells, const cell_number& number, uint64_t random) {
  std::map<std::string, seeds_of_task> tasks;
  for (const auto& cell : cells)
    if (const auto value = number(cell)) tasks[cell.task].push_back(*value);
  return resampled(by_task(tasks), random);
}

std::optional<estimate_95> difference_over(std::span<const cell_scores> of, std::span<const cell_scores> to,
                                           const cell_number& number, uint64_t random) {
  std::map<std::string, seeds_of_task> tasks;
  for (const auto& cell : of) {
    const auto other =
        std::ranges::find_if(to, [&](const auto& c) { return c.task == cell.task && c.seed == cell.seed; });
    if (other == to.end()) continue;
    const auto a = number(cell), b = number(*other);
    if (a && b) tasks[cell.task].push_back(*a - *b);
  }
  return resampled(by_task(tasks), random);
}

estimate_95 exponential(const estimate_95& e) {
  return {std::exp(e.value), std::exp(e.low), std::exp(e.high)};
}

}  // namespace cudal1::cli
