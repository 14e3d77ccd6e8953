#include "sandbox/verify/auditor.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sandbox/verify/disturbance.hpp"
#include "sandbox/verify/roofline.hpp"

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

void audit_interval(ledger& l, const timing_estimate& e, const core_sharing& sharing, const audit_options& options) {
  constexpr const char* rule = "audit: interval";
  const double half = (e.score_interval.high - e.score_interval.low) / 2 / e.score;
  const double limit = options.confirmed ? options.confirmed_limit : options.screened_limit;
  const std::string text =
      fmt::format("{:.4g}x, {:.4g} to {:.4g}: +-{:.1f}%, limit {:.1f}% for a {} score", e.score, e.score_interval.low,
                  e.score_interval.high, 100 * half, 100 * limit, options.confirmed ? "confirmed" : "screened");
  // Written so that a NaN is refused.
  if (e.score > 0 && half <= limit) return l.passed(rule, text);
  const std::string disturbed = describe(sharing);
  l.refused(rule, outcome::unmeasurable,
            "its time could not be measured: " + text + (disturbed.empty() ? "" : "; " + disturbed));
}

std::string skipped(const audit_options& options) {
  return "skipped: " + (options.unknown_device.empty() ? std::string("the device's specifications are not known")
                                                       : options.unknown_device);
}

// How fast memory can be read at best, and how many bytes of outputs may still be in a cache when the call ends.
struct memory_speed {
  double gb_per_s = 0;
  int64_t cache_bytes = 0;
  std::string source;
};

// The host's is what the referee itself reached when it flushed the caches. Inputs that survive a flush in a shared
// cache, another prefetcher's luck and a neighbour that was busy meanwhile are allowed for by a factor.
std::optional<memory_speed> memory_speed_of(const timing_report& timing, const audit_options& options) {
  constexpr double host_allowance = 4;
  if (options.device) {
    const auto& d = *options.device;
    return memory_speed{std::max(options.bandwidth_share * d.peak_gb_per_s, d.reached_gb_per_s), d.cache_bytes,
                        fmt::format("peak of {}: {:.1f}", d.name, d.peak_gb_per_s)};
  }
  if (!(timing.read_gb_per_s > 0)) return std::nullopt;
  return memory_speed{host_allowance * timing.read_gb_per_s, std::numeric_limits<int64_t>::max(),
                      fmt::format("{} times the fastest flush", host_allowance)};
}

// Caches are flushed before a call, so reads come from memory; writes may end in the cache.
void audit_bandwidth(ledger& l, const task& t, const timing_report& timing, const timing_estimate& e,
                     const audit_options& options) {
  constexpr const char* rule = "audit: bandwidth";
  constexpr double device_clock_share = 0.9;  // of the bound: events resolve half a microsecond
  const auto speed = memory_speed_of(timing, options);
  if (!speed) return l.passed(rule, skipped(options));
  const auto bytes = work_of(t).least_bytes(speed->cache_bytes);
  const double least_us = static_cast<double>(bytes) / (speed->gb_per_s * 1e3);
  const auto text = [&](const char* clock, double us) {
    return fmt::format("{}{:.2f} us; {} bytes at {:.1f} GB/s ({}) take {:.2f} us", clock, us, bytes, speed->gb_per_s,
                       speed->source, least_us);
  };
  if (!(e.variant_us >= least_us))
    return l.refused(rule, outcome::inconsistent,
                     "faster than its unavoidable memory traffic: " + text("", e.variant_us));
  if (e.variant_device_us > 0 && e.variant_device_us < device_clock_share * least_us)
    return l.refused(
        rule, outcome::inconsistent,
        "faster on the device than its unavoidable memory traffic: " + text("device time ", e.variant_device_us));
  l.passed(rule, bytes > 0 ? text("", e.variant_us)
                           : "skipped: nothing to test, since the outputs fit in the cache and no input must be read");
}

// Device time is a part of call time, and the rest is the host's: launches and synchronisation. What was computed in
// advance, or kept from another call, shows in one of the two alone.
void audit_clocks(ledger& l, const timing_estimate& e, const audit_options& options) {
  constexpr const char* rule = "audit: clocks";
  constexpr double noise_factor = 1.25, noise_us = 10, usual_overhead_us = 12, us_per_step = 20, overhead_factor = 4;
  if (!(e.variant_device_us > 0)) return l.passed(rule, "skipped: the device has no clock of its own");
  const double host_us = e.variant_us - e.variant_device_us;
  const double of_reference = e.reference_device_us > 0 ? std::max(0.0, e.reference_us - e.reference_device_us) : 0.0;
  const double overhead_us = options.device ? options.device->overhead_us : usual_overhead_us;
  const double most_us = std::max(e.variant_us / 2, overhead_factor * (of_reference + overhead_us) +
                                                        us_per_step * static_cast<double>(options.variant_steps));
  const std::string text =
      fmt::format("call time {:.2f} us, device time {:.2f} us; the reference's {:.2f} and {:.2f} us", e.variant_us,
                  e.variant_device_us, e.reference_us, e.reference_device_us);
  if (e.variant_device_us > noise_factor * e.variant_us + noise_us)
    return l.refused(rule, outcome::inconsistent, "its calls take less than the device needs for them: " + text);
  if (host_us > most_us)
    return l.refused(
        rule, outcome::inconsistent,
        fmt::format("its calls take {:.2f} us more than the device, and at most {:.2f} us are explained: {}", host_us,
                    most_us, text));
  l.passed(rule, text);
}

// No processor does more: 64 float32 FLOPs a cycle (two fused multiply-adds of 16 lanes), at 6 GHz.
device_data processor_limits() {
  device_data d;
  d.name = "any processor's core";
  d.peak_tflops = {.float64 = 0.192, .float32 = 0.384, .tf32 = 0.384, .half = 3.0};
  d.reached_gb_per_s = 1;
  return d;
}

// FLOPs are an estimate, which algebra may beat: such a time is a suspicion.
std::string audit_arithmetic(ledger& l, const task& t, const timing_report& timing, const timing_estimate& e,
                             const audit_options& options) {
  constexpr const char* rule = "audit: arithmetic";
  if (!options.device && !(timing.read_gb_per_s > 0)) {
    l.passed(rule, skipped(options));
    return "";
  }
  device_data limits = options.device ? *options.device : processor_limits();
  limits.reached_tflops = limits.peak_tflops;
  const task_work work = work_of(t);
  const double least_us = roofline_of(work, limits).compute_us;
  const double shortest_us = e.variant_device_us > 0 ? std::min(e.variant_us, e.variant_device_us) : e.variant_us;
  const std::string text = fmt::format("{:.2f} us; an estimated {:.3g} FLOPs take {:.2f} us at the peak of {}",
                                       shortest_us, work.flops.total(), least_us, limits.name);
  const bool is_suspicious = shortest_us < least_us;
  l.passed(rule, is_suspicious ? "suspicious, though algebra may save arithmetic: " + text : text);
  return is_suspicious ? "faster than the estimate of its arithmetic: " + text : "";
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
  audit_interval(l, estimate, timing.sharing, options);
  audit_bandwidth(l, t, timing, estimate, options);
  audit_launch(l, estimate, options);
  audit_clocks(l, estimate, options);
  std::string suspicion = audit_arithmetic(l, t, timing, estimate, options);
  audit_report report = l.close();
  report.suspicion = std::move(suspicion);
  return report;
}

// ---- rewards --------------------------------------------------------------------------------------------------------

}  // namespace cudal1
