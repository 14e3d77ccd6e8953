#include "sandbox/cpu/referee/cpu_checker.hpp"

#include <algorithm>
#include <chrono>
#include <map>

#include "sandbox/referee/answer_form.hpp"
#include "sandbox/referee/compare_on_host.hpp"
#include "sandbox/referee/elements.hpp"

namespace cudal1 {
namespace {

std::string alias_name(const checked_program& p, const output_memory& memory) {
  if (memory.home == output_home::input) return fmt::format("the input \"{}\"", p.text.inputs[memory.index].name);
  if (memory.home == output_home::weight) return fmt::format("the weight \"{}\"", p.text.weights[memory.index].name);
  return "";
}

}  // namespace

expected<call_outputs> checker::read(runner_link& runner, const draw& d) {
  const auto& types = runner.running().types;
  const auto& names = runner.running().text.outputs;
  // Mapped where an output lies in one of them.
  mapped_tensors inputs, weights;
  const auto given = [&](output_home home) -> expected<const mapped_tensors*> {
    const bool input = home == output_home::input;
    auto& mapped = input ? inputs : weights;
    if (mapped.empty()) {
      const int file = input ? d.inputs.get() : d.weights->get();
      CUDAL1_TRY(mapped, mapped_tensors::map(file, layout_of(input ? pool_.input_types() : pool_.weight_types())));
    }
    return &mapped;
  };
  CUDAL1_TRY(const auto memory, runner.outputs(given));
  call_outputs result;
  fingerprint bits{secret_, ~secret_};
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const tensor_type& type = types.at(names[i]);
    const std::byte* flat = memory[i].data;
    if (!type.is_contiguous() || memory[i].home != output_home::arena) {
      auto& copy = result.copies.emplace_back(static_cast<std::size_t>(type.bytes()));
      gather(type, memory[i].data, copy.data());
      flat = copy.data();
    }
    result.flat.push_back(flat);
    result.aliases.push_back(alias_name(runner.running(), memory[i]));
    const fingerprint one = fingerprint_of(flat, static_cast<std::size_t>(type.bytes()), secret_ + i);
    bits = {bits.low * 0x9e3779b97f4a7c15 + one.low, bits.high * 0xbf58476d1ce4e5b9 + one.high};
  }
  result.bits = bits;
  CUDAL1_CHECK(runner.confirm_outputs());
  return result;
}

std::vector<output_check> checker::compare(const checked_program& variant, const call_outputs& outputs, const draw& d,
                                           const tolerance& close, const tolerance& loose) const {
  const checked_program& reference = pool_.of().reference;
  const auto& types = pool_.reference().output_types();
  const auto& exact_types = pool_.reference().exact_types();
  std::vector<output_check> checks;
  for (std::size_t i = 0; i < std::max(outputs.flat.size(), types.size()); ++i) {
    output_check check;
    if (i >= outputs.flat.size()) {
      check.type_problem = "the program has no such output";
      check.name = reference.text.outputs[i];
    } else {
      const std::string problem = type_problem(variant, reference, i, outputs.aliases[i]);
      const bool comparable = i < types.size() && variant.types.at(variant.text.outputs[i]).type == types[i].type &&
                              variant.types.at(variant.text.outputs[i]).shape == types[i].shape;
      if (comparable)
        check = compare_output({.type = types[i].type,
                                .exact_type = exact_types[i].type,
                                .elements = types[i].numel(),
                                .value = outputs.flat[i],
                                .eager = d.answers.eager[i].data(),
                                .exact = d.answers.exact[i].data()},
                               close, loose);
      check.type_problem = problem;
      check.name = reference.text.outputs[std::min(i, reference.text.outputs.size() - 1)];
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

expected<call_outputs> checker::call_on(runner_link& runner, const draw& d) {
  CUDAL1_CHECK(runner.set_weights(d));
  CUDAL1_CHECK(runner.prepare(d));
  CUDAL1_CHECK(runner.call());
  return read(runner, d);
}

expected<void> checker::check_draw(runner_link& runner, const std::string& variant, const draw& d,
                                   const check_plan& plan, check_report& report) {
  CUDAL1_TRY(const call_outputs outputs, call_on(runner, d));
  auto checks = compare(runner.running(), outputs, d, plan.close, plan.close_loose);
  CUDAL1_CHECK(runner.check_guards());
  if (!first_) first_ = outputs.bits;
  known_output known{outputs.bits, {}};
  for (const auto& check : checks)
    known.errors.push_back(check.error);
  known_.remember(variant, d.request.seed, std::move(known));
  report.draws.push_back({d.request, std::move(checks)});
  return {};
}

expected<void> checker::run(runner_link& runner, const std::string& variant, const check_plan& plan,
                            check_report& report) {
  std::map<draw_kind, int> ordinals;
  std::shared_ptr<const draw> first;
  for (const auto& request : plan.draws) {
    CUDAL1_TRY(const auto d, pool_.get(request, request.seed == 0 ? ordinals[request.kind]++ : 0));
    if (!first) first = d;
    CUDAL1_CHECK(check_draw(runner, variant, *d, plan, report));
    report.setup_ms = std::max(report.setup_ms, runner.setup_ms());
  }
  if (plan.repeat_first && first) {
    CUDAL1_TRY(const call_outputs again, call_on(runner, *first));
    report.repeatable = again.bits == *first_;
  }
  return {};
}

expected<check_report> checker::check(runner_link& runner, const std::string& variant, const check_plan& plan) {
  const auto start = std::chrono::steady_clock::now();
  check_report report;
  report.load_ms = runner.load_ms();
  first_.reset();
  const auto ran = run(runner, variant, plan, report);
  if (!ran && ran.error().code != errc::variant_fault) return tl::unexpected<error>(ran.error());
  report.problem = runner.problem();
  // A fault of the task's own program is nobody's fault here.
  if (!ran && !report.problem && !runner.lost()) return fail(errc::infrastructure, "{}", ran.error().message);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  report.total_ms = took.count();
  return report;
}

int checker::unchecked(const std::string& variant) {
  int missing = 0;
  for (int i = 0; i < pool_.timing_draws(); ++i) {
    const uint64_t seed = pool_.seed({draw_kind::declared, 0}, i);
    if (known_.find(variant, seed) == nullptr) ++missing;
  }
  return missing;
}

expected<check_report> checker::check_pool(runner_link& runner, const check_pool_request& request) {
  check_plan plan;
  for (int i = 0; i < pool_.timing_draws(); ++i) {
    const draw_request wanted{draw_kind::declared, pool_.seed({draw_kind::declared, 0}, i)};
    if (known_.find(request.variant.key, wanted.seed) == nullptr) plan.draws.push_back(wanted);
  }
  plan.close = request.close;
  plan.close_loose = request.close_loose;
  plan.repeat_first = false;
  plan.call_limit_ms = request.plan.call_limit_ms;
  plan.memory_limit_bytes = request.plan.memory_limit_bytes;
  return check(runner, request.variant.key, plan);
}

}  // namespace cudal1
