#include "sandbox/verify/auditor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace cudal1 {

namespace {

class ledger {
 public:
  void passed(const char* rule, std::string why) { report_.evidence.push_back({rule, true, std::move(why)}); }
  void refused(const char* rule, outcome what, std::string why) {
    if (report_.result == outcome::correct) {
      report_.result = what;
      report_.reason = why;
    }
    report_.evidence.push_back({rule, false, std::move(why)});
  }
  audit_report close() {
    report_.accepted = report_.result == outcome::correct;
    return std::move(report_);
  }

 private:
  audit_report report_;
};

void audit_consistency(ledger& l, const check_report& check, const timing_report& timing) {
  constexpr const char* rule = "audit: consistency";
  if (check.problem)
    return l.refused(rule, outcome::inconsistent, "the check ended in a fault: " + check.problem->reason);
  if (timing.problem)
    return l.refused(rule, outcome::inconsistent, "timing ended in a fault: " + timing.problem->reason);
  if (!check.repeatable) return l.refused(rule, outcome::inconsistent, "repeating the same inputs gave different bits");
  if (!timing.inconsistency.empty()) return l.refused(rule, outcome::inconsistent, timing.inconsistency);
  const auto timed = static_cast<int64_t>(timing.samples.size());
  if (timing.outputs_fingerprinted < timed)
    return l.refused(rule, outcome::inconsistent,
                     fmt::format("only {} of {} timed outputs were hashed", timing.outputs_fingerprinted, timed));
  l.passed(rule, fmt::format("{} timed outputs hashed, {} compared in full", timing.outputs_fingerprinted,
                             timing.outputs_compared));
}

void audit_samples(ledger& l, const timing_report& timing, const timing_estimate& e, const audit_options& options) {
  constexpr const char* rule = "audit: samples";
  const bool all_positive = std::all_of(timing.samples.begin(), timing.samples.end(), [](const auto& s) {
    return std::isfinite(s.reference_us) && std::isfinite(s.variant_us) && s.reference_us > 0 && s.variant_us > 0;
  });
  const std::string count = fmt::format("{} pairs in {} forks, {} requested", e.pairs, e.forks, options.asked_pairs);
  if (!all_positive) return l.refused(rule, outcome::unmeasurable, "a sample's time is not a positive number");
  if (e.pairs < std::max(1, options.asked_pairs)) return l.refused(rule, outcome::unmeasurable, count);
  if (static_cast<std::size_t>(e.pairs) > timing.samples.size())
    return l.refused(rule, outcome::inconsistent,
                     fmt::format("the estimate claims {} pairs, but there are {}", e.pairs, timing.samples.size()));
  l.passed(rule, count);
}

void audit_interval(ledger& l, const timing_estimate& e, const audit_options& options) {
  constexpr const char* rule = "audit: interval";
  const double half = (e.score_interval.high - e.score_interval.low) / 2 / e.score;
  const double limit = options.confirmed ? options.confirmed_limit : options.screened_limit;
  const std::string text =
      fmt::format("{:.4g}x, {:.4g} to {:.4g}: +-{:.1f}%, limit {:.1f}% for a {} score", e.score, e.score_interval.low,
                  e.score_interval.high, 100 * half, 100 * limit, options.confirmed ? "confirmed" : "screened");
  // Written so that a NaN is refused.
  if (e.score > 0 && half <= limit) return l.passed(rule, text);
  l.refused(rule, outcome::unmeasurable, "its time could not be measured: " + text);
}

std::string skipped(const audit_options& options) {
  return "skipped: " + (options.unknown_device.empty() ? std::string("the device's specifications are not known")
                                                       : options.unknown_device);
}

// Caches are flushed before a call, so reads come from memory; writes may end in the cache.
void audit_bandwidth(ledger& l, const task& t, const timing_estimate& e, const audit_options& options) {
  constexpr const char* rule = "audit: bandwidth";
  if (!options.device) return l.passed(rule, skipped(options));
  const auto& d = *options.device;
  const double gb_per_s = std::max(options.bandwidth_share * d.peak_gb_per_s, d.reached_gb_per_s);
  const auto bytes = work_of(t).least_bytes(d.cache_bytes);
  const double least_us = static_cast<double>(bytes) / (gb_per_s * 1e3);
  const std::string text = fmt::format("{:.2f} us; {} bytes at {:.1f} GB/s (peak of {}: {:.1f}) take {:.2f} us",
                                       e.variant_us, bytes, gb_per_s, d.name, d.peak_gb_per_s, least_us);
  if (e.variant_us >= least_us) return l.passed(rule, text);
  l.refused(rule, outcome::inconsistent, "faster than its unavoidable memory traffic: " + text);
}

void audit_launch(ledger& l, const timing_estimate& e, const audit_options& options) {
  constexpr const char* rule = "audit: launch";
  if (!options.device) return l.passed(rule, skipped(options));
  const auto text = fmt::format("{:.2f} us; a call and its synchronisation take at least {:.2f} us", e.variant_us,
                                options.device->least_us);
  if (e.variant_us >= options.device->least_us) return l.passed(rule, text);
  l.refused(rule, outcome::inconsistent, "faster than a launch: " + text);
}

}  // namespace

audit_report audit(const task& t, const check_report& check, const timing_report& timing,
                   const timing_estimate& estimate, const audit_options& options) {
  ledger l;
  audit_consistency(l, check, timing);
  audit_samples(l, timing, estimate, options);
  audit_interval(l, estimate, options);
  audit_bandwidth(l, t, estimate, options);
  audit_launch(l, estimate, options);
  return l.close();
}

// ---- rewards --------------------------------------------------------------------------------------------------------

std::vector<double> group_rewards(std::span<const double> scores, double k) {
  std::vector<double> rewards(scores.size(), 0.0);
  if (scores.empty()) return rewards;
  const auto n = static_cast<double>(scores.size());
  const double mean = std::accumulate(scores.begin(), scores.end(), 0.0) / n;
  double squares = 0;
  for (const double s : scores)
    squares += (s - mean) * (s - mean);
  const double deviation = std::sqrt(squares / n);
  if (!(deviation > 1e-12 * std::max(1.0, std::abs(mean)))) return rewards;
  std::transform(scores.begin(), scores.end(), rewards.begin(),
                 [&](double s) { return std::clamp((s - mean) / deviation, -k, k); });
  return rewards;
}

std::optional<double> cuda_l1_score(std::span<const timing_sample> samples) {
  constexpr std::size_t buckets = 7;
  constexpr double max_variance = 0.005;
  if (samples.size() < buckets) return std::nullopt;
  std::array<double, buckets> means{};
  for (std::size_t b = 0; b < buckets; ++b) {
    const auto bucket = samples.subspan(b * samples.size() / buckets,
                                        (b + 1) * samples.size() / buckets - b * samples.size() / buckets);
    for (const auto& s : bucket)
      means[b] += s.reference_us / s.variant_us / static_cast<double>(bucket.size());
  }
  const double mean = std::accumulate(means.begin(), means.end(), 0.0) / buckets;
  double variance = 0;
  for (const double m : means)
    variance += (m - mean) * (m - mean) / (buckets - 1);
  if (!(variance <= max_variance)) return std::nullopt;
  std::nth_element(means.begin(), means.begin() + buckets / 2, means.end());
  const double score = means[buckets / 2];
  constexpr double rounding = 1e-9;  // 1.12 is stored a little below or above 112 hundredths
  return (score > 1 ? std::floor(score * 100 + rounding) : std::ceil(score * 100 - rounding)) / 100;
}

}  // namespace cudal1
