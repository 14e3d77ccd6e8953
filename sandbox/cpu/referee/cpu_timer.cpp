#include "sandbox/cpu/referee/cpu_timer.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>

#include "sandbox/referee/draws.hpp"

namespace cudal1 {
expected<void> call_timer::warm(runner_link& runner, const draw& d) {
  CUDAL1_CHECK(runner.set_weights(d));
  CUDAL1_CHECK(runner.prepare(d));
  return runner.call();
}

// Poison and addresses, then the flush, then a runner that is awake, then the clock.
expected<void> call_timer::take(turn& t, timing_report& report) {
  CUDAL1_CHECK(t.runner->prepare(*t.on));
  CUDAL1_TRY(const double flushed, cores_.flush());
  report.flush_ms += flushed;
  CUDAL1_CHECK(t.runner->arm());
  CUDAL1_TRY(t.microseconds, t.runner->timed_call());
  return {};
}

expected<void> call_timer::verify(runner_link& variant, const draw& d, const std::string& key, bool in_full,
                                  timing_report& report) {
  CUDAL1_TRY(const call_outputs outputs, outputs_.read(variant, d));
  ++report.outputs_fingerprinted;
  const known_output* known = known_.find(key, d.request.seed);
  if (known == nullptr)
    return fail(errc::infrastructure, "a variant is timed on a draw that it was not checked on (seed {})",
                d.request.seed);
  const bool same = outputs.bits == known->bits;
  if (same && !in_full) return {};
  ++report.outputs_compared;
  const auto checks = outputs_.compare(variant.running(), outputs, d, {}, {});
  if (report.inconsistency.empty())
    report.inconsistency = timed_inconsistency(checks, *known, same, pool_.reference().output_types());
  return {};
}

expected<void> call_timer::run(runner_link& reference, runner_link& variant, const time_fork_request& request,
                               timing_report& report) {
  std::mt19937_64 random(system_seed());
  const int draws = pool_.timing_draws();
  std::vector<int> order(static_cast<std::size_t>(draws));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  // The variant walks through the shuffled pool, the reference one ahead of it.
  const auto at = [&](int i) {
    return pool_.get({draw_kind::declared, 0}, order[static_cast<std::size_t>(i % draws)]);
  };
  {
    CUDAL1_TRY(const auto first, at(0));
    CUDAL1_TRY(const auto second, at(1));
    CUDAL1_CHECK(warm(variant, *first));
    CUDAL1_CHECK(warm(reference, *second));
  }
  const int pairs = std::min(request.plan.pairs, draws - 1);
  for (int pair = 1; pair <= pairs && report.inconsistency.empty(); ++pair) {
    CUDAL1_TRY(const auto of_variant, at(pair));
    CUDAL1_TRY(const auto of_reference, at(pair + 1));
    turn turns[2] = {{&reference, of_reference.get()}, {&variant, of_variant.get()}};
    const bool variant_first = (random() & 1) != 0;
    for (int i = 0; i < 2; ++i) {
      turn& t = turns[variant_first ? 1 - i : i];
      CUDAL1_CHECK(take(t, report));
      if (t.runner == &variant) CUDAL1_CHECK(verify(variant, *of_variant, request.variant.key, pair == 1, report));
    }
    report.samples.push_back({request.fork, variant_first, turns[0].microseconds, turns[1].microseconds});
  }
  return {};
}

expected<timing_report> call_timer::time(runner_link& reference, runner_link& variant,
                                         const time_fork_request& request) {
  const auto start = std::chrono::steady_clock::now();
  timing_report report;
  report.load_ms = reference.load_ms() + variant.load_ms();
  const auto ran = run(reference, variant, request, report);
  if (!ran && ran.error().code != errc::variant_fault) return tl::unexpected<error>(ran.error());
  report.problem = variant.problem();
  if (reference.problem())
    return fail(errc::infrastructure, "the task's own program failed in its runner: {}", reference.problem()->reason);
  if (!ran && !report.problem && !variant.lost() && !reference.lost())
    return fail(errc::infrastructure, "{}", ran.error().message);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.total_ms = took.count();
  return report;
}

}  // namespace cudal1
