#include "sandbox/referee/call_timer.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <utility>

#include "config/base/stopwatch.hpp"

namespace cudal1 {
namespace {

std::vector<int> shuffled(int count, std::mt19937_64& random) {
  std::vector<int> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  return order;
}

// Where the time of such a call belongs.
double& time_of(timing_sample& s, const planned_call& call) {
  const bool of_variant = call.which == resident_program::variant;
  switch (call.mode) {
    case call_mode::device_timed:
      return of_variant ? s.variant_device_us : s.reference_device_us;
    case call_mode::warm_timed:
      return of_variant ? s.variant_warm_us : s.reference_warm_us;
    case call_mode::untimed:
    case call_mode::timed:
      break;
  }
  return of_variant ? s.variant_us : s.reference_us;
}

}  // namespace

expected<void> call_timer::verify(program_runners& runners, std::span<const kept_call> calls, const std::string& key,
                                  timing_report& report) {
  struct finding {
    const known_output* known = nullptr;
    timed_bits bits = timed_bits::different;
  };
  std::vector<kept_call> compared;
  std::vector<finding> findings;
  for (const auto& call : calls) {
    const known_output* const known = known_.find(key, call.planned->draw->request.seed);
    const bool same = call.record->bits == known->bits;
    if (report.outputs_fingerprinted++ != fully_compared_ && same) continue;
    compared.push_back(call);
    findings.push_back({known, same ? timed_bits::same : timed_bits::different});
  }
  if (compared.empty()) return {};
  report.outputs_compared += static_cast<int64_t>(compared.size());
  CUDAL1_TRY(const auto checks, outputs_.compare(runners, compared));
  for (std::size_t i = 0; i < compared.size() && report.inconsistency.empty(); ++i)
    report.inconsistency =
        timed_inconsistency(checks[i], *findings[i].known, findings[i].bits, pool_.reference().output_types());
  return {};
}

expected<planned_call> call_timer::plan(const step& s, int ordinal, const std::string& key) {
  CUDAL1_TRY(auto d, pool_.get({draw_kind::declared, 0}, ordinal));
  planned_call planned{.which = s.of_variant ? resident_program::variant : resident_program::reference,
                       .draw = std::move(d),
                       .mode = s.mode};
  if (!s.of_variant || s.mode == call_mode::untimed) return planned;
  const known_output* const known = known_.find(key, planned.draw->request.seed);
  if (known == nullptr)
    return fail(errc::infrastructure, "a variant would be timed on a draw on which it was not checked (seed {})",
                planned.draw->request.seed);
  planned.key = known->key;
  planned.keep = true;
  return planned;
}

expected<void> call_timer::run_steps(program_runners& runners, const std::vector<step>& steps,
                                     const std::vector<int>& order, const std::string& key, timing_report& report) {
  std::size_t done = 0;
  const auto examine = [&](std::span<const planned_call> calls,
                           std::span<const call_record> records) -> expected<bool> {
    std::vector<kept_call> kept;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const step& s = steps[done++];
      report.flush_ms += records[i].flush_ms;
      if (s.mode == call_mode::untimed) continue;
      time_of(report.samples[s.sample], calls[i]) = records[i].microseconds;
      if (s.of_variant) kept.push_back({&calls[i], &records[i]});
    }
    CUDAL1_CHECK(verify(runners, kept, key, report));
    return report.inconsistency.empty();
  };
  return outputs_.run_in_parts(
      runners, steps.size(), [&](std::size_t i) { return plan(steps[i], order[steps[i].draw % order.size()], key); },
      examine);
}

expected<void> call_timer::run(program_runners& runners, const time_fork_request& request, timing_report& report) {
  std::mt19937_64 random(system_seed());
  const draws_of_fork fork = pool_.fork_of(request.plan);
  const std::vector<int> order = shuffled(fork.draws, random);
  // The variant uses the shuffled draws in order; the reference is one draw ahead.
  std::vector<step> steps{{.of_variant = true, .draw = 0}, {.of_variant = false, .draw = 1}};
  const auto pairs = static_cast<std::size_t>(fork.pairs);
  for (std::size_t pair = 1; pair <= pairs; ++pair) {
    const bool variant_first = (random() & 1) != 0;
    report.samples.push_back({.fork = request.fork, .variant_first = variant_first});
    for (const bool of_variant : {variant_first, !variant_first})
      steps.push_back({of_variant, of_variant ? pair : pair + 1, call_mode::timed, pair - 1});
  }
  std::size_t draw = pairs;
  for (const auto& [mode, count] :
       {std::pair(call_mode::device_timed, fork.device_pairs), std::pair(call_mode::warm_timed, fork.warm_pairs)})
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i, ++draw)
      for (const bool of_variant : {false, true})
        steps.push_back({of_variant, draw + (of_variant ? 1 : 2), mode, i});
  fully_compared_ = static_cast<int64_t>(random() % std::max<std::size_t>(draw, 1));
  return run_steps(runners, steps, order, request.variant.key, report);
}

expected<timing_report> call_timer::time(program_runners& runners, const time_fork_request& request) {
  const stopwatch took;
  timing_report report;
  const auto ran = run(runners, request, report);
  CUDAL1_CHECK(checker::ours(runners, ran));
  if (!ran && runners.faulty() == resident_program::reference && !runners.lost())
    return fail(errc::infrastructure, "the task's own program failed in its runner: {}", ran.error().message);
  // Drop samples whose calls were not made.
  std::erase_if(report.samples, [](const timing_sample& s) { return s.reference_us <= 0 || s.variant_us <= 0; });
  report.problem = runners.problem();
  report.load_ms = runners.load_ms();
  report.notes = runners.notes();
  report.read_gb_per_s = runners.read_gb_per_s();
  report.total_ms = took.ms();
  return report;
}

}  // namespace cudal1
