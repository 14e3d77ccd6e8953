#include "tools/cli/report/speedup_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sandbox/verify/roofline.hpp"

namespace cudal1::cli {

namespace {

// Interpolated as in the defaults of numpy and R: quantile(0.5) of {1, 2} is 1.5. `sorted` must not be empty.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double share_above(const std::vector<double>& values, double factor) {
  const auto n = std::count_if(values.begin(), values.end(), [&](double v) { return v > factor; });
  return static_cast<double>(n) / static_cast<double>(values.size());
}

double geometric_mean(const std::vector<double>& values) {
  const double sum =
      std::accumulate(values.begin(), values.end(), 0.0, [](double s, double v) { return s + std::log(v); });
  return std::exp(sum / static_cast<double>(values.size()));
}

}  // namespace

std::optional<median_estimate> estimate_median(std::vector<double> samples) {
  if (samples.empty()) return std::nullopt;
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  // The number of samples below the true median is binomial; its normal approximation, rounded outwards.
  const double reach = 0.98 * std::sqrt(n);
  const double low = std::max(0.0, std::floor(n / 2 - reach)), high = std::min(n - 1, std::ceil(n / 2 + reach));
  return median_estimate{quantile(samples, 0.5),
                         {samples[static_cast<std::size_t>(low)], samples[static_cast<std::size_t>(high)]}};
}

interval interval_of_ratio(double a, const interval& of_a, double b, const interval& of_b) {
  if (!(a > 0 && b > 0 && of_a.low > 0 && of_b.low > 0)) return {};
  const auto half = [](const interval& i) { return std::log(i.high / i.low) / 2; };
  const double width = std::hypot(half(of_a), half(of_b));
  return {a / b * std::exp(-width), a / b * std::exp(width)};
}

speedup_summary summarize(std::span<const task_speedup> tasks) {
  speedup_summary s;
  std::vector<double> counted, on_device, shares;
  std::vector<gap_times> gaps;
  for (const auto& t : tasks) {
    ++s.tasks;
    if (t.success) ++s.success;
    if (t.roof_share > 0) shares.push_back(t.roof_share);
    if (!t.measured) continue;
    const bool improved = t.success && t.speedup > 1;
    const double speedup = improved ? t.speedup : 1;
    if (improved) ++s.improved;
    if (t.success && t.speedup > 0 && t.speedup < 1) ++s.slower;
    counted.push_back(speedup);
    gaps.push_back({t.base_us, t.base_us / speedup, t.floor_us});
    if (!improved || t.device_speedup > 0) on_device.push_back(improved ? t.device_speedup : 1);
  }
  if (!shares.empty())
    s.roof_share = std::accumulate(shares.begin(), shares.end(), 0.0) / static_cast<double>(shares.size());
  s.measured = static_cast<int64_t>(counted.size());
  for (const double factor : {1.0, 1.5, 2.0, 3.0, 5.0, 10.0})
    s.fast.push_back({factor, counted.empty() ? 0 : share_above(counted, factor)});
  if (counted.empty()) return s;
  std::sort(counted.begin(), counted.end());
  s.mean = std::accumulate(counted.begin(), counted.end(), 0.0) / static_cast<double>(counted.size());
  s.geometric_mean = geometric_mean(counted);
  s.median = quantile(counted, 0.5);
  s.lower_quartile = quantile(counted, 0.25);
  s.upper_quartile = quantile(counted, 0.75);
  s.max = counted.back();
  s.over_101 = share_above(counted, 1.01);
  s.gap_closed = share_of_log_gap(gaps);
  const bool has_device_times =
      std::any_of(tasks.begin(), tasks.end(), [](const auto& t) { return t.device_speedup > 0; });
  if (has_device_times && !on_device.empty()) s.device_geometric_mean = geometric_mean(on_device);
  return s;
}

}  // namespace cudal1::cli
