#include "sandbox/referee/checker.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "config/base/stopwatch.hpp"
#include "sandbox/program/source.hpp"
#include "sandbox/referee/expected_statistics.hpp"
#include "sandbox/referee/output_form.hpp"

namespace cudal1 {
namespace {

constexpr double wrong_error = 1e-2;  // relative; larger than the rounding of any dtype

std::string alias_name(const checked_program& p, const output_memory& memory) {
  if (memory.home == output_home::input) return fmt::format("the input \"{}\"", p.text.inputs[memory.index].name);
  if (memory.home == output_home::weight) return fmt::format("the weight \"{}\"", p.text.weights[memory.index].name);
  return "";
}

std::vector<kept_call> kept_of(std::span<const planned_call> calls, std::span<const call_record> records) {
  std::vector<kept_call> kept;
  for (std::size_t i = 0; i < calls.size(); ++i)
    kept.push_back({&calls[i], &records[i]});
  return kept;
}

}  // namespace

// ---- comparing ------------------------------------------------------------------------------------------------------

std::vector<bool> checker::comparable_outputs(const checked_program& variant) const {
  const auto& types = pool_.reference().output_types();
  std::vector<bool> comparable;
  for (std::size_t i = 0; i < variant.text.outputs.size(); ++i) {
    const tensor_type& got = variant.types.at(variant.text.outputs[i]);
    comparable.push_back(i < types.size() && got.type == types[i].type && got.shape == types[i].shape);
  }
  return comparable;
}

// `checks`: of the variant's outputs.
std::vector<output_check> checker::with_form(const checked_program& variant, const call_record& record,
                                             std::vector<output_check> checks) const {
  const checked_program& reference = pool_.of().reference;
  const std::size_t got = record.outputs.size();
  checks.resize(std::max(got, reference.text.outputs.size()));
  for (std::size_t i = 0; i < checks.size(); ++i) {
    checks[i].type_problem = i < got ? type_problem(variant, reference, i, alias_name(variant, record.outputs[i]))
                                     : std::string("the program has no such output");
    checks[i].name = reference.text.outputs[std::min(i, reference.text.outputs.size() - 1)];
  }
  return checks;
}

expected<void> checker::allow_rounding(const checked_program& variant, const kept_call& call,
                                       std::vector<output_check>& checks) {
  for (std::size_t i = 0; i < checks.size(); ++i) {
    const std::string& name = variant.text.outputs[i];
    if (!may_be_rounding(checks[i], variant.types.at(name))) continue;
    planned_call planned = *call.planned;
    if (!is_half(variant.types.at(name).type)) {
      CUDAL1_TRY(planned.draw, pool_.with_rounding(planned.draw));
    }
    const int64_t before = checks[i].outside;
    CUDAL1_CHECK(backend_.allow_rounding(variant, {&planned, call.record}, i, checks[i]));
    if (checks[i].outside < before)
      notes_.push_back(
          fmt::format("draw {} (seed {}): {} of {} elements of {} are outside of the tolerance, but differ by no "
                      "more than rounding changes eager's",
                      enum_name(planned.draw->request.kind), planned.draw->request.seed, before - checks[i].outside,
                      checks[i].elements, name));
  }
  return {};
}

expected<std::vector<std::vector<output_check>>> checker::compare(program_runners& runners,
                                                                  std::span<const kept_call> calls) {
  const checked_program& variant = runners.running(resident_program::variant);
  CUDAL1_TRY(auto compared, backend_.compare(variant, calls, comparable_outputs(variant)));
  std::vector<std::vector<output_check>> checks;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (compared[i].bits != calls[i].record->bits)
      return runners.refuse({outcome::out_of_bounds, "a call wrote into the outputs of an earlier one"});
    CUDAL1_CHECK(allow_rounding(variant, calls[i], compared[i].outputs));
    checks.push_back(with_form(variant, *calls[i].record, std::move(compared[i].outputs)));
  }
  return checks;
}

// ---- calling --------------------------------------------------------------------------------------------------------

expected<void> checker::run_in_parts(program_runners& runners, std::size_t calls, const planner& plan,
                                     const examiner& examine) {
  std::vector<planned_call> part;
  for (std::size_t i = 0; i < calls; ++i) {
    CUDAL1_TRY(auto planned, plan(i));
    part.push_back(std::move(planned));
    const auto most = std::min(static_cast<std::size_t>(pool_.draws_at_once()), runners.max_calls());
    if (i + 1 < calls && part.size() < most) continue;
    CUDAL1_TRY(const auto records, runners.run(part));
    CUDAL1_TRY(const bool goes_on, examine(part, records));
    if (!goes_on) return {};
    part.clear();
  }
  return {};
}

// The order of sums by floating-point atomics varies between calls: an output as accurate as the first one counts as
// the same, and is noted. If the first output is wrong, its error is not allowed to the second.
expected<void> checker::repeat(program_runners& runners, std::shared_ptr<const draw> first, check_report& report) {
  // In a separate request, so that no output of the first call remains in memory.
  const std::vector<planned_call> again{
      {.draw = std::move(first), .key = first_->key, .keep = true, .elsewhere = true}};
  CUDAL1_TRY(const auto records, runners.run(again));
  if (records[0].bits == first_->bits) return {};
  const program& text = runners.running(resident_program::variant).text;
  const bool has_library_steps =
      std::ranges::any_of(text.steps, [](const step& s) { return std::holds_alternative<aten_step>(s); });
  if (!uses_atomics(text.source) && !(backend_.traits().order_of_sums_varies && has_library_steps)) {
    report.repeatable = false;
    return {};
  }
  CUDAL1_TRY(const auto checks, compare(runners, kept_of(again, records)));
  known_output sound = *first_;
  for (double& error : sound.errors)
    if (!(error < wrong_error)) error = 0;
  const std::string difference =
      timed_inconsistency(checks[0], sound, timed_bits::different, pool_.reference().output_types());
  report.repeatable = difference.empty();
  report.notes.push_back(
      difference.empty() ? "repeating the first draw gave different bits of equal accuracy: the order of sums varies"
                         : "repeating the first draw: " + difference);
  return {};
}

void checker::remember(const std::string& variant, const planned_call& call, const call_record& record,
                       const std::vector<output_check>& checks) {
  known_output known{record.bits, {}, call.key};
  for (const auto& check : checks)
    known.errors.push_back(check.error);
  if (!first_) first_ = known;
  known_.remember(variant, call.draw->request.seed, std::move(known));
}

expected<void> checker::run(program_runners& runners, const std::string& variant, const check_plan& plan,
                            check_report& report) {
  std::map<draw_kind, int> ordinals;
  std::shared_ptr<const draw> first, previous;
  const auto planned = [&](std::size_t i) -> expected<planned_call> {
    const auto& request = plan.draws[i];
    CUDAL1_TRY(auto d, pool_.get(request, request.seed == 0 ? ordinals[request.kind]++ : 0));
    if (!first) first = d;
    return planned_call{.draw = std::move(d), .key = system_seed(), .keep = true};
  };
  const auto examine = [&](std::span<const planned_call> calls,
                           std::span<const call_record> records) -> expected<bool> {
    std::vector<planned_call> compared(calls.begin(), calls.end());
    if (plan.against_previous)
      for (planned_call& call : compared) {
        const auto own = call.draw;
        if (previous) call.draw = previous;
        previous = own;
      }
    CUDAL1_TRY(auto checks, compare(runners, kept_of(compared, records)));
    CUDAL1_CHECK(runners.check_guards());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      if (!plan.against_previous) remember(variant, calls[i], records[i], checks[i]);
      report.draws.push_back({calls[i].draw->request, std::move(checks[i])});
    }
    return true;
  };
  CUDAL1_CHECK(run_in_parts(runners, plan.draws.size(), planned, examine));
  return plan.repeat_first && first ? repeat(runners, first, report) : expected<void>();
}

// A fault of the task's own program while computing expected outputs is not a fault of the variant.
expected<void> checker::ours(const program_runners& runners, const expected<void>& ran) {
  if (ran || (ran.error().code == errc::variant_fault && (runners.problem() || runners.lost()))) return {};
  return fail(referee_error_code(ran.error()), "{}", ran.error().message);
}

expected<check_report> checker::check(program_runners& runners, const std::string& variant, const check_plan& plan) {
  const stopwatch took;
  check_report report;
  first_.reset();
  notes_.clear();
  pool_.set_tolerances({plan.close, plan.close_loose, plan.eager_alone, plan.sized});
  CUDAL1_CHECK(ours(runners, run(runners, variant, plan, report)));
  report.problem = runners.problem();
  report.load_ms = runners.load_ms();
  report.setup_ms = runners.setup_ms();
  report.notes.insert(report.notes.end(), runners.notes().begin(), runners.notes().end());
  report.notes.insert(report.notes.end(), notes_.begin(), notes_.end());
  report.total_ms = took.ms();
  return report;
}

std::vector<draw_request> checker::unchecked_draws(const check_pool_request& request) {
  std::vector<draw_request> missing;
  for (int i = 0; i < pool_.fork_of(request.plan).draws; ++i) {
    const draw_request wanted{draw_kind::declared, pool_.seed({draw_kind::declared, 0}, i)};
    if (known_.find(request.variant.key, wanted.seed) == nullptr) missing.push_back(wanted);
  }
  return missing;
}

expected<check_report> checker::check_pool(program_runners& runners, const check_pool_request& request) {
  check_plan plan;
  plan.draws = unchecked_draws(request);
  plan.close = request.close;
  plan.close_loose = request.close_loose;
  plan.eager_alone = request.eager_alone;
  plan.sized = request.sized;
  plan.repeat_first = false;
  return check(runners, request.variant.key, plan);
}

}  // namespace cudal1
