#include "sandbox/verify/profiler.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <boost/math/distributions/students_t.hpp>

#include "sandbox/verify/compared_scores.hpp"

namespace cudal1 {

namespace {

// The usual bias counts as much as this many forks.
constexpr double weight_of_usual_bias = 4;
constexpr double single_pair_noise = 0.2;             // assumed if every fork has one pair only
constexpr double shamos_to_deviation = 0.9538725524;  // median |difference| of two normal deviates, of deviation 1
constexpr double shamos_efficiency = 0.86;
constexpr int least_pairs_to_confirm = 10, least_device_pairs_to_confirm = 6;
// For a large gain over the best, the half width may be this share of the gain, up to this multiple of the limit.
constexpr double share_of_gain = 0.25, max_limit_factor = 2;

// Reorders `values`. The mean of the middle two if their number is even.
double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

template <class F>
double median_of(std::span<const timing_sample> samples, F&& value) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const auto& s : samples)
    values.push_back(value(s));
  return median(values);
}

// The logarithms of the ratios of each fork, in the order of the forks' numbers.
std::vector<std::vector<double>> by_fork(std::span<const timing_sample> samples, score_clock by) {
  std::vector<timing_sample> sorted(samples.begin(), samples.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.fork < b.fork; });
  std::vector<std::vector<double>> forks;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i].fork != sorted[i - 1].fork) forks.emplace_back();
    forks.back().push_back(std::log(ratio_of(sorted[i], by)));
  }
  return forks;
}

// Variance of the median of n normal deviates, of deviation 1.
double variance_of_median(double n) {
  return std::numbers::pi / (2 * n + std::numbers::pi - 2);
}

// A standard deviation and the degrees of freedom of its estimate.
struct spread {
  double deviation = 0, freedom = 0;
};

// The noise of one pair by Shamos' estimator: the median distance between two pairs of one fork. A fork's bias cancels,
// and up to a quarter of the pairs may be outliers.
spread noise_of(const std::vector<std::vector<double>>& forks) {
  std::vector<double> distances;
  std::size_t pairs = 0;
  for (const auto& fork : forks) {
    pairs += fork.size();
    for (std::size_t i = 0; i < fork.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        distances.push_back(std::abs(fork[i] - fork[j]));
  }
  if (distances.empty()) return {single_pair_noise, 1};
  return {median(distances) / shamos_to_deviation,
          std::max(1.0, shamos_efficiency * static_cast<double>(pairs - forks.size()))};
}

// The bias of a fork: the variation of the forks' medians that noise does not explain, shrunk towards the usual bias.
// The medians are weighted by the usual bias' share of their variance: forks that are all noise carry no information.
spread bias_of(const std::vector<std::vector<double>>& forks, double noise, double usual_bias) {
  const auto n = static_cast<double>(forks.size());
  const double usual = usual_bias * usual_bias;
  if (forks.size() < 2) return {usual_bias, weight_of_usual_bias};
  double mean = 0, squares = 0, of_noise = 0;
  std::vector<double> middles;
  for (auto fork : forks) {
    middles.push_back(median(fork));
    mean += middles.back() / n;
    of_noise += noise * noise * variance_of_median(static_cast<double>(fork.size())) / n;
  }
  for (const double m : middles)
    squares += (m - mean) * (m - mean) / (n - 1);
  const double share = usual / (usual + of_noise);
  const double freedom = (n - 1) * share * share;
  const double seen = std::max(0.0, squares - of_noise);
  return {std::sqrt((weight_of_usual_bias * usual + freedom * seen) / (weight_of_usual_bias + freedom)),
          weight_of_usual_bias + freedom};
}

// `forks`: logarithms of ratios.
interval interval_of(const std::vector<std::vector<double>>& forks, double score, double usual_bias) {
  std::size_t pairs = 0;
  for (const auto& fork : forks)
    pairs += fork.size();
  const spread noise = noise_of(forks), bias = bias_of(forks, noise.deviation, usual_bias);
  const double from_noise = noise.deviation * noise.deviation * variance_of_median(static_cast<double>(pairs));
  const double from_bias = bias.deviation * bias.deviation * variance_of_median(static_cast<double>(forks.size()));
  const double variance = from_noise + from_bias;
  // Welch and Satterthwaite.
  const double freedom =
      variance * variance / (from_noise * from_noise / noise.freedom + from_bias * from_bias / bias.freedom);
  const boost::math::students_t_distribution<double> t(freedom);
  const double half = boost::math::quantile(t, 0.975) * std::sqrt(variance);
  return {score * std::exp(-half), score * std::exp(half)};
}

// Device times are measured for some of the calls, or for none; 0 if none.
double median_of_measured(std::span<const timing_sample> samples, double timing_sample::*time) {
  std::vector<timing_sample> taken;
  std::copy_if(samples.begin(), samples.end(), std::back_inserter(taken), [&](const auto& s) { return s.*time > 0; });
  return taken.empty() ? 0 : median_of(taken, [&](const auto& s) { return s.*time; });
}

}  // namespace

timing_estimate estimate_timing(std::span<const timing_sample> samples, double usual_bias, score_clock by) {
  const auto lacks_device_time = [](const timing_sample& s) {
    return !(s.reference_device_us > 0 && s.variant_device_us > 0);
  };
  if (std::ranges::any_of(samples, lacks_device_time)) by = score_clock::call;
  const auto forks = by_fork(samples, by);
  timing_estimate e;
  e.score = median_of(samples, [by](const timing_sample& s) { return ratio_of(s, by); });
  e.scored_by = by;
  e.reference_us = median_of(samples, [](const auto& s) { return s.reference_us; });
  e.variant_us = median_of(samples, [](const auto& s) { return s.variant_us; });
  e.pairs = static_cast<int>(samples.size());
  e.forks = static_cast<int>(forks.size());
  e.score_interval = interval_of(forks, e.score, usual_bias);
  e.reference_device_us = median_of_measured(samples, &timing_sample::reference_device_us);
  e.variant_device_us = median_of_measured(samples, &timing_sample::variant_device_us);
  e.reference_warm_us = median_of_measured(samples, &timing_sample::reference_warm_us);
  e.variant_warm_us = median_of_measured(samples, &timing_sample::variant_warm_us);
  return e;
}

// ---- when to stop ---------------------------------------------------------------------------------------------------

namespace {

double half_width_of(const timing_estimate& e) {
  return (e.score_interval.high - e.score_interval.low) / 2 / e.score;
}

}  // namespace

double largest_confirmed_half_width(const profiling_options& options) {
  return max_limit_factor * options.confirmed_limit;
}

timing_decider::timing_decider(profiling_options options, measured_score best, score_clock by)
    : options_(options), best_(best), by_(by) {
  plan(options_.screening_forks, options_.screening_pairs, options_.screening_forks);
}

// At least one fork; at most as many as the limit and the remaining time allow.
void timing_decider::plan(int64_t forks, int64_t pairs, int64_t left) {
  if (next_fork_ > 0 && spent_ms_ > 0) {
    const double ms_per_fork = spent_ms_ / next_fork_;
    const double ms_left = std::max(0.0, options_.max_seconds * 1000 - spent_ms_);
    left = std::min(left, static_cast<int64_t>(std::min(1e6, ms_left / ms_per_fork)));
  }
  plan_.forks = static_cast<int>(std::max<int64_t>(1, std::min(forks, left)));
  // A pair that is also timed on the device is two, and device times vary less.
  plan_.pairs = static_cast<int>(by_ == score_clock::device ? (pairs + 1) / 2 : pairs);
  plan_.scored_by = by_;
}

void timing_decider::add(const timing_report& report) {
  spent_ms_ += report.total_ms;
  const std::size_t before = all_.size();
  for (const auto& s : report.samples) {
    // Ignore samples whose clock did not advance.
    if (!(s.reference_us > 0 && s.variant_us > 0 && std::isfinite(s.reference_us) && std::isfinite(s.variant_us)))
      continue;
    all_.push_back(s);
    next_fork_ = std::max(next_fork_, s.fork + 1);
  }
  if (action_ == action::confirm) {
    confirming_ = true;
    confirm_from_ = before;
  }
  const bool usable = !report.problem && report.inconsistency.empty() && all_.size() > before;
  action_ = usable ? (confirming_ ? after_confirmation() : after_screening()) : action::stop;
}

timing_decider::timing_decider(profiling_options options, double best_score)
    : timing_decider(options, [&] {
        measured_score best;
        best.score = best_score;
        return best;
      }()) {}

double timing_decider::best_beside(const timing_estimate& e) const {
  return score_at_pace_of(best_, e);
}

timing_decider::action timing_decider::after_screening() {
  const timing_estimate e = *result();
  const double best = best_beside(e);
  // A variant that is clearly no new best needs only a wide interval; otherwise it must be clear on which side it lies.
  const bool no_best = e.score_interval.high < best;
  const bool new_best = e.score_interval.low > best;
  const double wanted = no_best ? options_.screened_limit : options_.screening_half_width;
  const bool known = new_best || half_width_of(e) <= wanted;
  if (!known && e.forks < options_.max_screening_forks && !out_of_time()) {
    plan(options_.screening_forks, options_.screening_pairs, options_.max_screening_forks - e.forks);
    return action::measure;
  }
  if (no_best || (!new_best && e.score <= best * (1 + options_.least_gain))) return action::stop;
  plan(options_.refinement_forks, options_.refinement_pairs, options_.max_forks);
  return action::confirm;
}

timing_decider::action timing_decider::after_confirmation() {
  const timing_estimate e = *result();
  const double half_width = half_width_of(e), best = best_beside(e);
  const bool new_best = e.score_interval.low > best, close = half_width <= options_.decided_half_width;
  if (e.score_interval.high < best || (close && e.score <= best)) return action::stop;
  const bool enough = half_width <= options_.target_half_width || (close && new_best);
  const int least = e.scored_by == score_clock::device ? least_device_pairs_to_confirm : least_pairs_to_confirm;
  const bool ends = (enough && e.pairs >= least) || e.forks >= options_.max_forks || out_of_time();
  if (!ends) {
    plan(options_.refinement_forks, options_.refinement_pairs, options_.max_forks - e.forks);
    return action::measure;
  }
  // A variant that is much faster may have a wider interval: the host's share of its time varies more.
  const double gain = new_best ? std::log(e.score / best) : 0;
  const double more = std::min(share_of_gain * gain, largest_confirmed_half_width(options_));
  confirmed_ = half_width <= std::max(options_.confirmed_limit, more);
  return action::stop;
}

std::span<const timing_sample> timing_decider::samples() const {
  return std::span(all_).subspan(confirming_ ? confirm_from_ : 0);
}

std::optional<timing_estimate> timing_decider::result() const {
  if (samples().empty()) return std::nullopt;
  return estimate_timing(samples(), options_.fork_bias, by_);
}

}  // namespace cudal1
