#include "sandbox/verify/profiler.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <boost/math/distributions/students_t.hpp>

namespace cudal1 {

namespace {

constexpr double normal_quantile = 1.959963984540054;  // 97.5%
constexpr double bias_of_one_fork = 0.03;              // relative; what a single pair of processes cannot show
constexpr int least_pairs_to_confirm = 10;

// The middle of `values`, which are reordered; the mean of the middle two where their number is even.
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

double ratio(const timing_sample& s) {
  return s.reference_us / s.variant_us;
}

// The ratios of each fork, in the order of the forks' numbers.
std::vector<std::vector<double>> by_fork(std::span<const timing_sample> samples) {
  std::vector<timing_sample> sorted(samples.begin(), samples.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.fork < b.fork; });
  std::vector<std::vector<double>> forks;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i].fork != sorted[i - 1].fork) forks.emplace_back();
    forks.back().push_back(ratio(sorted[i]));
  }
  return forks;
}

// Uniform on 0..n-1 for n below 2^32, the same with every standard library.
std::size_t below(std::mt19937_64& random, std::size_t n) {
  return static_cast<std::size_t>((random() >> 32) * n >> 32);
}

// How much wider than the percentile interval n independent groups ask for.
double small_sample_factor(std::size_t n) {
  const auto groups = static_cast<double>(n);
  const boost::math::students_t_distribution<double> t(groups - 1);
  return boost::math::quantile(t, 0.975) / normal_quantile * std::sqrt(groups / (groups - 1));
}

interval bootstrap(const std::vector<std::vector<double>>& forks, double score, uint64_t seed, int resamples) {
  std::mt19937_64 random(seed);
  std::vector<double> medians, drawn;
  medians.reserve(static_cast<std::size_t>(resamples));
  for (int r = 0; r < resamples; ++r) {
    drawn.clear();
    for (std::size_t f = 0; f < forks.size(); ++f) {
      const auto& pairs = forks[below(random, forks.size())];
      for (std::size_t p = 0; p < pairs.size(); ++p)
        drawn.push_back(pairs[below(random, pairs.size())]);
    }
    medians.push_back(median(drawn));
  }
  std::sort(medians.begin(), medians.end());
  const auto at = [&](double share) {
    return medians[static_cast<std::size_t>(share * static_cast<double>(medians.size() - 1) + 0.5)];
  };
  double factor = 1;
  if (forks.size() > 1) {
    factor = small_sample_factor(forks.size());
  } else if (forks.front().size() > 1) {
    factor = small_sample_factor(forks.front().size());
  }
  interval i{score * std::pow(std::min(1.0, at(0.025) / score), factor),
             score * std::pow(std::max(1.0, at(0.975) / score), factor)};
  if (forks.size() == 1) {
    i.low = std::min(i.low, score * (1 - bias_of_one_fork));
    i.high = std::max(i.high, score * (1 + bias_of_one_fork));
  }
  return i;
}

}  // namespace

timing_estimate estimate_timing(std::span<const timing_sample> samples, uint64_t seed, int resamples) {
  const auto forks = by_fork(samples);
  timing_estimate e;
  e.score = median_of(samples, ratio);
  e.reference_us = median_of(samples, [](const auto& s) { return s.reference_us; });
  e.variant_us = median_of(samples, [](const auto& s) { return s.variant_us; });
  e.pairs = static_cast<int>(samples.size());
  e.forks = static_cast<int>(forks.size());
  e.score_interval = bootstrap(forks, e.score, seed, resamples);
  return e;
}

// ---- when to stop ---------------------------------------------------------------------------------------------------

timing_decider::timing_decider(profiling_options options, double best) : options_(std::move(options)), best_(best) {
  plan_screening();
}

void timing_decider::plan_screening() {
  plan_.forks = static_cast<int>(options_.screening_forks);
  plan_.pairs = static_cast<int>(options_.screening_pairs);
}

void timing_decider::plan_refinement(int forks_so_far) {
  const auto left = options_.max_forks - forks_so_far;
  plan_.forks = static_cast<int>(std::max<int64_t>(1, std::min(options_.refinement_forks, left)));
  plan_.pairs = static_cast<int>(options_.refinement_pairs);
}

void timing_decider::add(const timing_report& report) {
  spent_ms_ += report.total_ms;
  const std::size_t before = all_.size();
  for (const auto& s : report.samples) {
    // A clock that did not move measured nothing.
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
  action_ = usable && decide() ? action_ : action::stop;
}

// Sets the next action and its plan; false to stop.
bool timing_decider::decide() {
  const timing_estimate e = *result();
  if (!confirming_) {
    if (e.score_interval.high < best_ || e.score <= best_) return false;
    action_ = action::confirm;
    plan_refinement(0);
    return true;
  }
  if (e.score_interval.high < best_) return false;
  const double half_width = (e.score_interval.high - e.score_interval.low) / 2 / e.score;
  const bool narrow = half_width <= options_.target_half_width && e.pairs >= least_pairs_to_confirm;
  if (narrow || e.forks >= options_.max_forks || spent_ms_ >= options_.max_seconds * 1000) {
    confirmed_ = true;
    return false;
  }
  action_ = action::measure;
  plan_refinement(e.forks);
  return true;
}

std::span<const timing_sample> timing_decider::samples() const {
  return std::span(all_).subspan(confirming_ ? confirm_from_ : 0);
}

std::optional<timing_estimate> timing_decider::result() const {
  if (samples().empty()) return std::nullopt;
  return estimate_timing(samples());
}

}  // namespace cudal1
