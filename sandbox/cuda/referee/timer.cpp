#include "sandbox/cuda/referee/timer.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

namespace cudal1 {
namespace {

constexpr int device_timed_pairs = 2;  // of a batch of forks, and at least one of each

std::vector<int> shuffled(int count, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  return order;
}

}  // namespace

expected<void> gpu_call_timer::verify(gpu_runner_link& runner, const gpu_call_result& called, const gpu_draw& d,
                                      const std::string& key, timing_report& report) {
  const checked_program& variant = runner.running(resident_program::variant);
  CUDAL1_TRY(const auto outputs, outputs_.read(variant, called));
  const bool in_full = report.outputs_fingerprinted++ == 0;
  const known_output* known = known_.find(key, d.request.seed);
  if (known == nullptr)
    return fail(errc::infrastructure, "a variant is timed on a draw that it was not checked on (seed {})",
                d.request.seed);
  const bool same = outputs.bits == known->bits;
  if (same && !in_full) return {};
  ++report.outputs_compared;
  CUDAL1_TRY(const auto checks, outputs_.compare(variant, outputs, d));
  if (report.inconsistency.empty())
    report.inconsistency = timed_inconsistency(checks, *known, same, pool_.programs().output_types());
  return {};
}

expected<double> gpu_call_timer::take(gpu_runner_link& runner, resident_program which, const gpu_draw& d,
                                      call_mode mode, const std::string& key, timing_report& report) {
  CUDAL1_TRY(const auto called, runner.call(which, d, mode));
  report.flush_ms += called.flush_ms;
  if (which == resident_program::variant) {
    CUDAL1_CHECK(verify(runner, called, d, key, report));
  } else {
    // The same work between two calls, whichever side's turn it was: else the call after it would tell them apart.
    CUDAL1_CHECK(outputs_.read(runner.running(resident_program::reference), called));
  }
  return called.microseconds;
}

expected<void> gpu_call_timer::run(gpu_runner_link& runner, const time_fork_request& request, timing_report& report) {
  constexpr auto reference = resident_program::reference, variant = resident_program::variant;
  const std::string& key = request.variant.key;
  std::mt19937_64 random(system_seed());
  const std::vector<int> order = shuffled(gpu_draw_pool::draws_of_fork(request.plan.pairs), random);
  // The variant walks through the shuffled draws, the reference one ahead of it.
  const auto at = [&](std::size_t i) { return pool_.get({draw_kind::declared, 0}, order[i % order.size()]); };
  for (const bool of_variant : {true, false}) {
    CUDAL1_TRY(const auto d, at(of_variant ? 0 : 1));
    CUDAL1_CHECK(runner.call(of_variant ? variant : reference, *d, call_mode::untimed));
  }
  const std::size_t pairs =
      std::min<std::size_t>(static_cast<std::size_t>(std::max(request.plan.pairs, 0)), order.size() - 1);
  for (std::size_t pair = 1; pair <= pairs && report.inconsistency.empty(); ++pair) {
    timing_sample sample{.fork = request.fork, .variant_first = (random() & 1) != 0};
    for (const bool of_variant : {sample.variant_first, !sample.variant_first}) {
      double& microseconds = of_variant ? sample.variant_us : sample.reference_us;
      CUDAL1_TRY(const auto d, at(of_variant ? pair : pair + 1));
      CUDAL1_TRY(microseconds, take(runner, of_variant ? variant : reference, *d, call_mode::timed, key, report));
    }
    report.samples.push_back(sample);
  }
  const auto device_pairs = static_cast<std::size_t>(request.plan.forks > 1 ? 1 : device_timed_pairs);
  for (std::size_t i = 0; i < std::min(report.samples.size(), device_pairs); ++i) {
    auto& sample = report.samples[i];
    for (const bool of_variant : {false, true}) {
      double& microseconds = of_variant ? sample.variant_device_us : sample.reference_device_us;
      CUDAL1_TRY(const auto d, at(of_variant ? i + 1 : i + 2));
      CUDAL1_TRY(microseconds,
                 take(runner, of_variant ? variant : reference, *d, call_mode::device_timed, key, report));
    }
  }
  return {};
}

expected<timing_report> gpu_call_timer::time(gpu_runner_link& runner, const time_fork_request& request) {
  const auto start = std::chrono::steady_clock::now();
  timing_report report;
  const auto ran = run(runner, request, report);
  if (!ran && (ran.error().code != errc::variant_fault || (!runner.problem() && !runner.lost())))
    return fail(errc::infrastructure, "{}", ran.error().message);
  if (!ran && runner.faulty() == resident_program::reference && !runner.lost())
    return fail(errc::infrastructure, "the task's own program failed in its runner: {}", ran.error().message);
  report.problem = runner.problem();
  report.load_ms = runner.load_ms();
  report.notes = runner.notes();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.total_ms = took.count();
  return report;
}

}  // namespace cudal1
