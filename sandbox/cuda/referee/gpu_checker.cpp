#include "sandbox/cuda/referee/gpu_checker.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "sandbox/cuda/referee/without_exceptions.hpp"
#include "sandbox/interpreter/boxed_values.hpp"
#include "sandbox/referee/answer_form.hpp"

namespace cudal1 {
namespace {

constexpr double wrong_error = 1e-2;  // relative: no dtype's rounding

std::string alias_name(const checked_program& p, const gpu_output_memory& memory) {
  if (memory.home == output_home::input) return fmt::format("the input \"{}\"", p.text.inputs[memory.index].name);
  if (memory.home == output_home::weight) return fmt::format("the weight \"{}\"", p.text.weights[memory.index].name);
  return "";
}

}  // namespace

// ---- comparing ------------------------------------------------------------------------------------------------------

bool gpu_checker::comparable(const checked_program& variant, std::size_t output) const {
  const auto& types = pool_.programs().output_types();
  if (output >= types.size() || output >= variant.text.outputs.size()) return false;
  const tensor_type& got = variant.types.at(variant.text.outputs[output]);
  return got.type == types[output].type && got.shape == types[output].shape;
}

namespace {

compared_tensors operands_of(const tensor_type& type, const std::byte* value, const gpu_draw& d, std::size_t output) {
  return {type.type, type.numel(), value, d.answers.eager[output].const_data_ptr(),
          d.answers.exact[output].const_data_ptr()};
}

}  // namespace

expected<gpu_checker::flat_outputs> gpu_checker::start(const checked_program& variant, const kept_call& call) {
  flat_outputs result;
  const gpu_draw& d = *call.planned->draw;
  for (std::size_t i = 0; i < call.result->outputs.size(); ++i) {
    const auto& memory = call.result->outputs[i];
    const tensor_type& type = variant.types.at(variant.text.outputs[i]);
    result.aliases.push_back(alias_name(variant, memory));
    CUDAL1_TRY(const std::size_t hash, comparer_.start_hash(type, memory.data, call.planned->key, i));
    result.hashes.push_back(hash);
    if (!comparable(variant, i)) continue;
    const std::byte* flat = memory.data;
    if (!type.is_contiguous()) {
      CUDAL1_TRY(auto copy, without_exceptions("gathering an output", [&]() -> expected<at::Tensor> {
                   return wrap({type, memory.data}, device_.where()).contiguous();
                 }));
      flat = static_cast<const std::byte*>(copy.const_data_ptr());
      result.copies.push_back(std::move(copy));
    }
    CUDAL1_TRY(const std::size_t started, comparer_.start_compare(operands_of(type, flat, d, i), pool_.allowed()));
    result.data.resize(i + 1, nullptr);
    result.comparisons.resize(i + 1, 0);
    result.data[i] = flat;
    result.comparisons[i] = started;
  }
  return result;
}

std::vector<output_check> gpu_checker::checks_of(const checked_program& variant, const flat_outputs& outputs,
                                                 const gpu_draw& d) {
  const checked_program& reference = pool_.of().reference;
  std::vector<output_check> checks;
  const std::size_t got = outputs.aliases.size();
  for (std::size_t i = 0; i < std::max(got, pool_.programs().output_types().size()); ++i) {
    output_check check;
    if (comparable(variant, i)) {
      const tensor_type& type = variant.types.at(variant.text.outputs[i]);
      check =
          comparer_.compared(outputs.comparisons[i], operands_of(type, outputs.data[i], d, i), d.answers.figures[i]);
    }
    check.type_problem = i < got ? type_problem(variant, reference, i, outputs.aliases[i])
                                 : std::string("the program has no such output");
    check.name = reference.text.outputs[std::min(i, reference.text.outputs.size() - 1)];
    checks.push_back(std::move(check));
  }
  return checks;
}

expected<std::vector<std::vector<output_check>>> gpu_checker::compare(gpu_runner_link& runner,
                                                                      std::span<const kept_call> calls) {
  const checked_program& variant = runner.running(resident_program::variant);
  std::vector<flat_outputs> outputs;
  for (const auto& call : calls) {
    CUDAL1_TRY(auto one, start(variant, call));
    outputs.push_back(std::move(one));
  }
  CUDAL1_CHECK(comparer_.collect());
  std::vector<std::vector<output_check>> checks;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    fingerprint bits;
    for (const std::size_t started : outputs[c].hashes)
      bits += comparer_.hashed(started);
    if (bits != calls[c].result->bits)
      return runner.refuse({outcome::out_of_bounds, "a call wrote into the outputs of an earlier one"});
    checks.push_back(checks_of(variant, outputs[c], *calls[c].planned->draw));
  }
  return checks;
}

// ---- calling --------------------------------------------------------------------------------------------------------

expected<void> gpu_checker::run_in_parts(gpu_runner_link& runner, std::size_t calls,
                                         const std::function<expected<planned_call>(std::size_t)>& plan,
                                         const onlooker& look) {
  const checked_program& variant = runner.running(resident_program::variant);
  int64_t bytes = 1;
  for (const auto& name : variant.text.outputs)
    bytes += variant.types.at(name).storage_bytes();
  const auto outputs = static_cast<int64_t>(variant.text.outputs.size());
  const int64_t of_records = static_cast<int64_t>(output_comparer::most_started) / (2 * std::max<int64_t>(outputs, 1));
  std::vector<planned_call> part;
  for (std::size_t i = 0; i < calls; ++i) {
    CUDAL1_TRY(auto planned, plan(i));
    part.push_back(std::move(planned));
    const int64_t most = std::min({int64_t{pool_.draws_at_once()}, runner.keepable_bytes() / bytes, of_records});
    if (i + 1 < calls && static_cast<int64_t>(part.size()) < most) continue;
    CUDAL1_TRY(const auto results, runner.run(part));
    CUDAL1_CHECK(look(part, results));
    part.clear();
  }
  return {};
}

// Sums by floating-point atomics come in another order each time: an answer as good as the first one counts as the
// same, and is noted. A first answer that is wrong anyway excuses nothing.
expected<void> gpu_checker::repeat(gpu_runner_link& runner, std::shared_ptr<const gpu_draw> first,
                                   check_report& report) {
  // By itself: nothing that the first call gave is left anywhere.
  const std::vector<planned_call> again{
      {.draw = std::move(first), .key = first_->key, .keep = true, .elsewhere = true}};
  CUDAL1_TRY(const auto results, runner.run(again));
  if (results[0].bits == first_->bits) return {};
  const kept_call kept{&again[0], &results[0]};
  CUDAL1_TRY(const auto checks, compare(runner, {&kept, 1}));
  known_output sound = *first_;
  for (double& error : sound.errors)
    if (!(error < wrong_error)) error = 0;
  const std::string difference = timed_inconsistency(checks[0], sound, false, pool_.programs().output_types());
  report.repeatable = difference.empty();
  report.notes.push_back(difference.empty()
                             ? "the first draw again gave other bits, as good an answer: the order of its sums varies"
                             : "the first draw again: " + difference);
  return {};
}

expected<void> gpu_checker::run(gpu_runner_link& runner, const std::string& variant, const check_plan& plan,
                                check_report& report) {
  std::map<draw_kind, int> ordinals;
  std::shared_ptr<const gpu_draw> first;
  const auto planned = [&](std::size_t i) -> expected<planned_call> {
    const auto& request = plan.draws[i];
    CUDAL1_TRY(auto d, pool_.get(request, request.seed == 0 ? ordinals[request.kind]++ : 0));
    if (!first) first = d;
    return planned_call{.draw = std::move(d), .key = system_seed(), .keep = true};
  };
  const auto look = [&](std::span<const planned_call> calls,
                        std::span<const gpu_call_result> results) -> expected<void> {
    std::vector<kept_call> kept;
    for (std::size_t i = 0; i < calls.size(); ++i)
      kept.push_back({&calls[i], &results[i]});
    CUDAL1_TRY(auto checks, compare(runner, kept));
    for (std::size_t i = 0; i < calls.size(); ++i) {
      known_output known{results[i].bits, {}, calls[i].key};
      for (const auto& check : checks[i])
        known.errors.push_back(check.error);
      if (!first_) first_ = known;
      known_.remember(variant, calls[i].draw->request.seed, std::move(known));
      report.draws.push_back({calls[i].draw->request, std::move(checks[i])});
    }
    return {};
  };
  CUDAL1_CHECK(run_in_parts(runner, plan.draws.size(), planned, look));
  return plan.repeat_first && first ? repeat(runner, first, report) : expected<void>();
}

expected<check_report> gpu_checker::check(gpu_runner_link& runner, const std::string& variant, const check_plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  check_report report;
  first_.reset();
  pool_.judge_by({plan.close, plan.close_loose});
  const auto ran = run(runner, variant, plan, report);
  // A fault of the task's own program in the answers, or of the runner's, is nobody's fault here.
  if (!ran && (ran.error().code != errc::variant_fault || (!runner.problem() && !runner.lost())))
    return fail(code_of_ours(ran.error()), "{}", ran.error().message);
  report.problem = runner.problem();
  report.load_ms = runner.load_ms();
  report.setup_ms = runner.setup_ms();
  report.notes.insert(report.notes.end(), runner.notes().begin(), runner.notes().end());
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.total_ms = took.count();
  return report;
}

std::vector<draw_request> gpu_checker::unchecked_draws(const check_pool_request& request) {
  std::vector<draw_request> missing;
  for (int i = 0; i < pool_.draws_of_fork(request.plan.pairs); ++i) {
    const draw_request wanted{draw_kind::declared, pool_.seed({draw_kind::declared, 0}, i)};
    if (known_.find(request.variant.key, wanted.seed) == nullptr) missing.push_back(wanted);
  }
  return missing;
}

expected<check_report> gpu_checker::check_pool(gpu_runner_link& runner, const check_pool_request& request) {
  check_plan plan;
  plan.draws = unchecked_draws(request);
  plan.close = request.close;
  plan.close_loose = request.close_loose;
  plan.repeat_first = false;
  return check(runner, request.variant.key, plan);
}

}  // namespace cudal1
