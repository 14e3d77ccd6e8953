#include "tools/cli/report/move_failures.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "config/base/describe.hpp"
#include "policy/graph/schedule.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"
#include "sandbox/program/program.hpp"
#include "sandbox/program/task.hpp"
#include "tools/cli/format.hpp"
#include "tools/cli/report/report.hpp"

namespace cudal1::cli {

namespace {

bool is_a_limit_or_a_fault_of_the_machine(outcome o) {
  switch (o) {
    case outcome::compile_timeout:
    case outcome::hang:
    case outcome::out_of_memory:
    case outcome::unmeasurable:
    case outcome::quarantined:
    case outcome::unexplained:  // a fault of the task
      return true;
    case outcome::correct:
    case outcome::invalid:
    case outcome::compile_error:
    case outcome::refused:
    case outcome::wrong_answer:
    case outcome::wrote_input:
    case outcome::out_of_bounds:
    case outcome::crash:
    case outcome::forbidden:
    case outcome::inconsistent:
      break;
  }
  return false;
}

// What the device's library lacks.
bool lacks_an_engine(const verdict& v) {
  return v.result == outcome::invalid && v.reason.find(no_engine_words) != std::string::npos;
}

std::string first_failed_gate(const verdict& v) {
  const auto failed = std::find_if(v.gates.begin(), v.gates.end(), [](const auto& g) { return !g.passed; });
  return failed == v.gates.end() ? "" : failed->gate;
}

std::multiset<std::string> precisions(const program& p) {
  std::multiset<std::string> all;
  for (const auto* steps : {&p.setup, &p.steps})
    for (const auto& s : *steps)
      if (const auto* aten = std::get_if<aten_step>(&s); aten != nullptr && !aten->precision.empty())
        all.insert(aten->precision);
  return all;
}

// Whether the variant asks for other precisions than the task's own program. False where either cannot be read.
bool changes_precision(const variant_record& variant, const task_record& task) {
  const auto theirs = read_program(variant.program);
  const auto own = read_task(task.text, task.profile);
  return theirs && own && precisions(*theirs) != precisions(own->reference.text);
}

// Whether the variant is off by no more than TF32's rounding, and the library may have used it where it computes the
// task's own convolution exactly: for other layouts and forms of a convolution it has other kernels.
bool may_round_to_tf32(const variant_record& variant, const verdict& v) {
  constexpr double most = 1e-2;  // twenty times the rounding, which norms increase
  const auto is_near = [](const output_check& o) { return o.mask_mismatches == 0 && o.error <= most; };
  constexpr std::string_view changing[] = {"channels_last(",     "flip_weights(",           "convolve_phases(",
                                           "compose_means(",     "drop_unit_dimensions(",   "multiply_unit_kernels(",
                                           "convolution_graph(", "tensor_core_convolution("};
  const bool may = std::ranges::any_of(
      changing, [&](std::string_view name) { return variant.schedule.find(name) != std::string::npos; });
  return may && !v.checks.empty() &&
         std::ranges::all_of(v.checks, [&](const draw_check& d) { return std::ranges::all_of(d.outputs, is_near); });
}

std::vector<std::string> moves_of(const std::string& text) {
  std::vector<std::string> moves;
  if (const auto parsed = parse_schedule(text))
    for (const auto& m : parsed->moves)
      moves.push_back(print_schedule({{m}}));
  return moves;
}

class failure_finder {
 public:
  failure_finder(store& s, const task_record& task, shown_causes causes) : store_(s), task_(task), causes_(causes) {}

  expected<std::vector<move_failure>> find(const std::string& experiment) {
    CUDAL1_TRY(const auto verdicts, store_.verdicts_of_task(task_.id, experiment));
    std::vector<move_failure> found;
    for (const auto& v : verdicts) {
      CUDAL1_TRY(const auto shown, failure_shown_by(store_, v, task_, causes_));
      if (!shown) continue;
      CUDAL1_TRY(found.emplace_back(), failure_of(*shown));
    }
    if (found.empty()) return found;
    CUDAL1_CHECK(read_correct_moves());
    for (auto& f : found)
      for (const auto& m : moves_of(f.schedule))
        if (!correct_moves_[f.device].contains(m)) f.only_here.push_back(m);
    return found;
  }

 private:
  expected<move_failure> failure_of(const shown_failure& shown) {
    const verdict& v = shown.whole;
    const variant_record& variant = shown.variant;
    move_failure f;
    f.cause = shown.cause;
    f.variant = v.variant;
    f.task = task_.id;
    f.name = task_.name;
    f.experiment = variant.experiment;
    CUDAL1_TRY(f.device, device_of(v));
    f.outcome = enum_name(v.result);
    f.gate = first_failed_gate(v);
    f.reason = v.reason;
    f.schedule = variant.schedule;
    f.time_unix_ms = v.time_unix_ms;
    return f;
  }

  expected<std::string> device_of(const verdict& v) {
    if (v.environment_id.empty()) return "";
    const auto known = devices_.find(v.environment_id);
    if (known != devices_.end()) return known->second;
    CUDAL1_TRY(const auto where, store_.get_environment(v.environment_id));
    return devices_[v.environment_id] = where.device;
  }

  // Of all experiments: they are evidence, whichever is listed.
  expected<void> read_correct_moves() {
    CUDAL1_TRY(const auto verdicts, store_.verdicts_of_task(task_.id));
    for (const auto& v : verdicts) {
      if (v.result != outcome::correct) continue;
      CUDAL1_TRY(const auto device, device_of(v));
      CUDAL1_TRY(const auto variant, store_.get_variant(v.variant));
      for (auto& m : moves_of(variant.schedule))
        correct_moves_[device].insert(std::move(m));
    }
    return {};
  }

  store& store_;
  const task_record& task_;
  shown_causes causes_;
  std::map<std::string, std::string> devices_;                  // by environment
  std::map<std::string, std::set<std::string>> correct_moves_;  // by device
};

// All moves, or those that no correct variant has, with a word on which these are.
std::string moves_text(const move_failure& f) {
  const auto all = moves_of(f.schedule).size();
  if (f.only_here.empty()) return f.schedule + " (each of these is also in a correct variant)";
  if (f.only_here.size() == all) return f.schedule;
  return fmt::format("{} ({} of {}: those that are in no correct variant)", fmt::join(f.only_here, "; "),
                     f.only_here.size(), format_count(static_cast<int64_t>(all), "move"));
}

}  // namespace

expected<std::optional<shown_failure>> failure_shown_by(store& s, const verdict& summary, const task_record& task,
                                                        shown_causes causes) {
  const bool is_limit = is_a_limit_or_a_fault_of_the_machine(summary.result) || lacks_an_engine(summary);
  if (summary.result == outcome::correct || (is_limit && causes == shown_causes::bugs)) return std::nullopt;
  shown_failure shown;
  CUDAL1_TRY(shown.variant, s.get_variant(summary.variant));
  if (shown.variant.schedule.empty()) return std::nullopt;  // written by hand, or by a model
  CUDAL1_TRY(shown.whole, with_details(s, summary));
  // A wrong form is a bug at any precision.
  const bool of_values =
      shown.whole.result == outcome::wrong_answer && !first_failed_gate(shown.whole).starts_with("1");
  if (is_limit) shown.cause = failure_cause::limit;
  if (of_values && (changes_precision(shown.variant, task) || may_round_to_tf32(shown.variant, shown.whole)))
    shown.cause = failure_cause::precision;
  if ((of_values || shown.whole.result == outcome::inconsistent) && !shown.whole.ill_conditioned.empty())
    shown.cause = failure_cause::conditioning;
  if (shown.cause != failure_cause::bug && causes == shown_causes::bugs) return std::nullopt;
  return shown;
}

expected<std::vector<move_failure>> move_failures(store& s, const task_record& task, const std::string& experiment,
                                                  shown_causes causes) {
  return failure_finder(s, task, causes).find(experiment);
}

std::string print_move_failures(const std::vector<move_failure>& failures, std::size_t most, const terminal& t) {
  std::string text;
  for (const auto& f : std::span(failures).first(std::min(most, failures.size()))) {
    const auto where = f.device.empty() ? "" : " on " + f.device;
    text += t.bold(fmt::format("{}  {}{}: {}", short_id(f.variant), f.name, where, f.outcome));
    if (!f.gate.empty()) text += fmt::format(", gate {}", f.gate);
    text += f.cause == failure_cause::bug ? "\n" : fmt::format(" (explained: {})\n", enum_name(f.cause));
    text += wrap(f.reason, t.width, 2) + "\n" + wrap("moves: " + moves_text(f), t.width, 2) + "\n";
  }
  if (failures.size() > most) text += fmt::format("... and {} more (-n shows more)\n", failures.size() - most);
  return text;
}

}  // namespace cudal1::cli
