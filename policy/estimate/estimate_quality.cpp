#include "policy/estimate/estimate_quality.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cudal1 {

namespace {

std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> out(values.size());
  for (std::size_t i = 0, end = 0; i < order.size(); i = end) {
    for (end = i; end < order.size() && values[order[end]] == values[order[i]]; ++end) {
    }
    for (std::size_t k = i; k < end; ++k)
      out[order[k]] = static_cast<double>(i + end - 1) / 2;
  }
  return out;
}

double shortest(std::span<const estimated_time> all) {
  return std::ranges::min_element(all, {}, &estimated_time::measured)->measured;
}

}  // namespace

double rank_correlation(std::span<const estimated_time> all) {
  std::vector<double> estimated, measured;
  for (const auto& each : all) {
    estimated.push_back(each.estimated);
    measured.push_back(each.measured);
  }
  const auto a = ranks_of(estimated), b = ranks_of(measured);
  const double mean = (static_cast<double>(all.size()) - 1) / 2;
  double both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    of_a += (a[i] - mean) * (a[i] - mean);
    of_b += (b[i] - mean) * (b[i] - mean);
  }
  return of_a > 0 && of_b > 0 ? both / std::sqrt(of_a * of_b) : 0;
}

double share_by_estimate(std::vector<estimated_time> all, std::size_t first) {
  std::ranges::stable_sort(all, {}, &estimated_time::estimated);
  const std::span<const estimated_time> every = all;
  return shortest(every) / shortest(every.first(std::min(first, every.size())));
}

// The k-th shortest is the shortest of the drawn ones if it is drawn and no shorter one is.
double share_by_chance(std::span<const estimated_time> all, std::size_t first) {
  std::vector<double> times;
  for (const auto& each : all)
    times.push_back(each.measured);
  std::ranges::sort(times);
  const auto drawn = static_cast<double>(std::min(first, times.size()));
  double none_before = 1, mean = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const auto left = static_cast<double>(times.size() - i);
    const double taken = std::min(1.0, drawn / left);
    mean += none_before * taken * std::log(times.front() / times[i]);
    none_before *= 1 - taken;
  }
  return std::exp(mean);
}

}  // namespace cudal1
