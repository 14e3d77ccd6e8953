#include "sandbox/cuda/referee/checker.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "sandbox/cuda/referee/tensors.hpp"
#include "sandbox/process/referee/answer_form.hpp"

namespace cudal1 {
namespace {

constexpr double wrong_error = 1e-2;  // relative: no dtype's rounding

std::string alias_name(const checked_program& p, const gpu_output_memory& memory) {
  if (memory.home == output_home::input) return fmt::format("the input \"{}\"", p.text.inputs[memory.index].name);
  if (memory.home == output_home::weight) return fmt::format("the weight \"{}\"", p.text.weights[memory.index].name);
  return "";
}

known_output known_of(const fingerprint& bits, const std::vector<output_check>& checks) {
  known_output known{bits, {}};
  for (const auto& check : checks)
    known.errors.push_back(check.error);
  return known;
}

}  // namespace

expected<gpu_call_outputs> gpu_checker::read(const checked_program& variant, const gpu_call_result& called) {
  gpu_call_outputs result;
  fingerprint bits{secret_, ~secret_};
  for (std::size_t i = 0; i < called.outputs.size(); ++i) {
    const auto& memory = called.outputs[i];
    const tensor_type& type = variant.types.at(variant.text.outputs[i]);
    const std::byte* flat = memory.data;
    if (!type.is_contiguous()) {
      CUDAL1_TRY(auto copy, without_exceptions("gathering an output", [&]() -> expected<at::Tensor> {
                   return tensor_over(type, memory.data, device_.where()).contiguous();
                 }));
      flat = static_cast<const std::byte*>(copy.const_data_ptr());
      result.copies.push_back(std::move(copy));
    }
    result.flat.push_back(flat);
    result.aliases.push_back(alias_name(variant, memory));
    CUDAL1_TRY(const fingerprint one, comparer_.hash(flat, type.bytes(), secret_ + i));
    bits = {bits.low * 0x9e3779b97f4a7c15 + one.low, bits.high * 0xbf58476d1ce4e5b9 + one.high};
  }
  result.bits = bits;
  return result;
}

expected<std::vector<output_check>> gpu_checker::compare(const checked_program& variant,
                                                         const gpu_call_outputs& outputs, const gpu_draw& d) {
  const checked_program& reference = pool_.of().reference;
  const auto& types = pool_.programs().output_types();
  std::vector<output_check> checks;
  for (std::size_t i = 0; i < std::max(outputs.flat.size(), types.size()); ++i) {
    output_check check;
    if (i >= outputs.flat.size()) {
      check.type_problem = "the program has no such output";
    } else {
      const tensor_type& got = variant.types.at(variant.text.outputs[i]);
      if (i < types.size() && got.type == types[i].type && got.shape == types[i].shape) {
        const compared_tensors operands{types[i].type, types[i].numel(), outputs.flat[i],
                                        d.answers.eager[i].const_data_ptr(), d.answers.exact[i].const_data_ptr()};
        CUDAL1_TRY(check, comparer_.compare(operands, d.answers.figures[i], pool_.allowed()));
      }
      check.type_problem = type_problem(variant, reference, i, outputs.aliases[i]);
    }
    check.name = reference.text.outputs[std::min(i, reference.text.outputs.size() - 1)];
    checks.push_back(std::move(check));
  }
  return checks;
}

expected<gpu_call_outputs> gpu_checker::call_on(gpu_runner_link& runner, const gpu_draw& d, bool elsewhere) {
  CUDAL1_TRY(const auto called, runner.call(resident_program::variant, d, call_mode::untimed, elsewhere));
  return read(runner.running(resident_program::variant), called);
}

expected<void> gpu_checker::check_draw(gpu_runner_link& runner, const std::string& variant, const gpu_draw& d,
                                       check_report& report) {
  CUDAL1_TRY(const auto outputs, call_on(runner, d, false));
  CUDAL1_TRY(auto checks, compare(runner.running(resident_program::variant), outputs, d));
  known_output known = known_of(outputs.bits, checks);
  if (!first_) first_ = known;
  known_.remember(variant, d.request.seed, std::move(known));
  report.draws.push_back({d.request, std::move(checks)});
  return {};
}

// Sums by floating-point atomics come in another order each time: an answer as good as the first one counts as the
// same, and is noted. A first answer that is wrong anyway excuses nothing.
expected<void> gpu_checker::repeat(gpu_runner_link& runner, const gpu_draw& first, check_report& report) {
  const checked_program& variant = runner.running(resident_program::variant);
  CUDAL1_TRY(const auto again, call_on(runner, first, true));
  if (again.bits == first_->bits) return {};
  CUDAL1_TRY(const auto checks, compare(variant, again, first));
  known_output sound = *first_;
  for (double& error : sound.errors)
    if (!(error < wrong_error)) error = 0;
  const std::string difference = timed_inconsistency(checks, sound, false, pool_.programs().output_types());
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
  for (const auto& request : plan.draws) {
    CUDAL1_TRY(const auto d, pool_.get(request, request.seed == 0 ? ordinals[request.kind]++ : 0));
    if (!first) first = d;
    CUDAL1_CHECK(check_draw(runner, variant, *d, report));
  }
  return plan.repeat_first && first ? repeat(runner, *first, report) : expected<void>();
}

expected<check_report> gpu_checker::check(gpu_runner_link& runner, const std::string& variant, const check_plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  check_report report;
  first_.reset();
  pool_.judge_by({plan.close, plan.close_loose});
  const auto ran = run(runner, variant, plan, report);
  // A fault of the task's own program in the answers, or of the runner's, is nobody's fault here.
  if (!ran && (ran.error().code != errc::variant_fault || (!runner.problem() && !runner.lost())))
    return fail(errc::infrastructure, "{}", ran.error().message);
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
