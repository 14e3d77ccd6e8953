#include "sandbox/verify/compared_scores.hpp"

#include <algorithm>
#include <cmath>

namespace cudal1 {

namespace {

// How a variant's host time follows the reference's, as a power: that of one launch of a CUDA graph by 0.26 to 0.63,
// 0.4 in the middle (H100, tools/bench/RESULTS.md); that of a program which calls operators as the reference does by 1.
constexpr double least_power = 0.4;
constexpr double most_often_slower = 4;  // further apart the times are of two programs, or wrong

struct shares {
  double device = 0, host = 0;
};

shares of_reference(const measured_score& m) {
  return {m.reference_device_us, m.reference_us - m.reference_device_us};
}

shares of_variant(const measured_score& m) {
  return {m.variant_device_us, m.variant_us - m.variant_device_us};
}

bool has_both_shares(const measured_score& m) {
  const shares r = of_reference(m), v = of_variant(m);
  return r.device > 0 && v.device > 0 && r.host > 0 && v.host > 0;
}

}  // namespace

double score_at_pace_of(const measured_score& m, const measured_score& now) {
  if (m.scored_by == score_clock::device || !has_both_shares(m) || !has_both_shares(now)) return m.score;
  const shares r = of_reference(m), v = of_variant(m), r_now = of_reference(now);
  const double pace = std::clamp(r_now.host / r.host, 1 / most_often_slower, most_often_slower);
  const double power = std::clamp(v.host / r.host, least_power, 1.0);
  const double variant_us = v.device * r_now.device / r.device + v.host * std::pow(pace, power);
  return m.score * (now.reference_us / variant_us) / (m.reference_us / m.variant_us);
}

bool is_faster(const measured_score& a, const measured_score& b) {
  return a.score > score_at_pace_of(b, a);
}

std::vector<double> scores_at_one_pace(std::span<const measured_score> all) {
  std::vector<const measured_score*> with_times;
  for (const auto& m : all)
    if (has_both_shares(m)) with_times.push_back(&m);
  const auto middle = with_times.begin() + static_cast<std::ptrdiff_t>(with_times.size() / 2);
  if (!with_times.empty())
    std::ranges::nth_element(with_times, middle, {}, [](const auto* m) { return of_reference(*m).host; });
  std::vector<double> scores;
  for (const auto& m : all)
    scores.push_back(with_times.empty() ? m.score : score_at_pace_of(m, **middle));
  return scores;
}

}  // namespace cudal1
