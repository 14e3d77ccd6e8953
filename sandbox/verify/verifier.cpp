#include "sandbox/verify/verifier.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "config/base/describe.hpp"
#include "sandbox/device/accuracy.hpp"
#include "sandbox/program/operators/integer_arithmetic.hpp"
#include "sandbox/verify/conditioning.hpp"
#include "sandbox/verify/half_precision.hpp"

namespace cudal1 {

namespace {

constexpr tolerance close_float32{1e-4, 1e-4}, close_half{1e-2, 1e-2};
constexpr double error_floor_float64 = 1e-12;
constexpr double error_factor_shipped = 2;  // gate 3: times the error of eager as shipped, where that uses TF32
// No multiple of strict float32's error allows more, in gates 3 and 4: zeros, and a constant, are off by 1.
constexpr double largest_error = 0.25, largest_signal_error = 0.7;
// Gate 4's floors: rounding alone may reach them if an output hardly varies; replacing it by a constant gives 1.
constexpr double signal_floor = 1e-2, signal_floor_half = 1e-1, signal_resolution = 1e6;
// The rounding of operands in half precision over that of float32: 2^-11 over 2^-24. And by how many times the root
// mean square of all elements' errors one may be off.
constexpr double half_over_float32 = 0x1p13, largest_over_mean = 16;

// What the task's gates allow on one kind of draw: the options, and what an accuracy other than `own` makes of them.
struct error_rules {
  const verification_options& options;
  bool strict = false;    // eager's error as shipped allows nothing
  double half_error = 0;  // relative error that half precision gives float32 outputs; 0 where it is not accepted
  // On other draws than the declared ones sums may cancel, or functions grow, which makes the errors of operands larger
  // in half precision as in float32.
  bool amplifies = false;

  error_rules(const task& t, const verification_options& o)
      : options(o),
        strict(accuracy_of(o) == accuracy::strict),
        half_error(accuracy_of(o) == accuracy::half ? half_precision_error(t.reference) : 0) {}
  error_rules on(draw_kind kind) const {
    error_rules here = *this;
    here.amplifies = kind != draw_kind::declared;
    return here;
  }
  bool allows_half(dtype t) const { return half_error > 0 && t == dtype::float32; }
  double factor_of_strict(dtype t) const {
    return amplifies && allows_half(t) ? half_over_float32 : options.error_factor_strict;
  }
};

double error_floor(dtype t, const error_rules& rules) {
  const verification_options& options = rules.options;
  if (rules.allows_half(t)) return std::max(rules.half_error, options.error_floor_float32);
  if (is_half(t)) return options.error_floor_half;
  return t == dtype::float64 ? error_floor_float64 : options.error_floor_float32;
}

// ---- the plan -------------------------------------------------------------------------------------------------------

// Whether it is drawn from a continuous distribution, so that the other kinds of draw may replace it.
bool is_continuous(const tensor_declaration& d, const input_spec& spec) {
  const bool one_hot = std::find(spec.facts.begin(), spec.facts.end(), fact::one_hot) != spec.facts.end();
  const bool fixed = spec.content && spec.content->fixed;
  return is_floating(d.type.type) && !one_hot && !fixed &&
         (spec.draw.kind == distribution::uniform || spec.draw.kind == distribution::normal ||
          spec.draw.kind == distribution::simplex);
}

struct row_shapes {
  bool any = false, long_rows = false, several_rows = false;
  void add(const tensor_declaration& d, const input_spec& spec) {
    if (!is_continuous(d, spec) || d.type.numel() == 0) return;
    any = true;
    const int64_t length = d.type.dim() == 0 ? 1 : d.type.shape.back();
    long_rows |= length > 1;
    several_rows |= d.type.numel() / length > 1;
  }
};

// ---- one output against the gates -----------------------------------------------------------------------------------

using failure_reason = std::optional<std::string>;  // why it failed

// "y[3, 17] is 1.5 and should be 1.25".
std::string worst_element(const output_check& o, const tensor_type& type) {
  if (o.worst_index < 0) return fmt::format("{}: no element to show", o.name);
  std::string place;
  int64_t rest = o.worst_index;
  for (std::size_t d = type.shape.size(); d-- > 0;) {
    const int64_t size = std::max<int64_t>(1, type.shape[d]);
    place = std::to_string(rest % size) + (place.empty() ? "" : ", ") + place;
    rest /= size;
  }
  return fmt::format("worst: {}[{}] is {:.9g} and should be {:.9g}", o.name, place, o.worst_value, o.worst_expected);
}

failure_reason form(const output_check& o, const tensor_type& type) {
  if (!o.type_problem.empty()) return fmt::format("{}: {}", o.name, o.type_problem);
  if (o.elements != type.numel())
    return fmt::format("{}: {} elements were compared, but it has {}", o.name, o.elements, type.numel());
  if (o.mask_mismatches != 0)
    return fmt::format("{}: {} of {} elements are NaN or infinite where the reference is finite, or the reverse; {}",
                       o.name, o.mask_mismatches, o.elements, worst_element(o, type));
  return std::nullopt;
}

// What an output may be near: eager's output alone, or the exact one too, so that eager's own error gives more room.
enum class near_output { of_eager, of_eager_or_exact };

failure_reason exactly_equal(const output_check& o, const tensor_type& type, near_output near) {
  if (o.max_absolute == 0 && o.outside == 0) return std::nullopt;
  if (near == near_output::of_eager_or_exact && o.reference_outside > 0 && o.outside <= o.reference_outside)
    return std::nullopt;
  return fmt::format("{}: {} must be equal, but {} of {} elements differ, by up to {:.4g}; {}", o.name,
                     name_of(type.type), std::max<int64_t>(1, o.outside), o.elements, o.max_absolute,
                     worst_element(o, type));
}

// The error allowed, given eager's own: a large multiple of strict float32's, up to `largest`, and a small one of
// eager's as shipped.
double allowed_error(double strict, double shipped, double floor, double largest, dtype t, const error_rules& rules) {
  const auto times = [](double factor, double error) { return std::isfinite(error) ? factor * error : 0.0; };
  const double many = std::min(times(rules.factor_of_strict(t), strict), largest);
  return std::max({many, rules.strict ? 0 : times(error_factor_shipped, shipped), floor});
}

double allowed_error(const output_check& o, dtype t, const error_rules& rules) {
  return allowed_error(o.strict_error, o.reference_error, error_floor(t, rules), largest_error, t, rules);
}

// In half precision the tolerance is 1e-2 of the output's size (check_plan::sized), which errors that were made larger
// may exceed: as far as the error of all elements may.
bool is_near_as_a_whole(const output_check& o, dtype t, const error_rules& rules) {
  if (!rules.amplifies || !rules.allows_half(t)) return false;
  const double size = o.within.absolute / close_half.absolute;
  return o.max_absolute <= largest_over_mean * allowed_error(o, t, rules) * size;
}

failure_reason close(const output_check& o, const tensor_type& type, near_output near, const error_rules& rules) {
  if (!is_floating(type.type)) return exactly_equal(o, type, near);
  if (near == near_output::of_eager_or_exact && o.loose && o.reference_outside_loose > 0)
    return std::nullopt;  // eager is too inaccurate: gate 3 decides
  // A NaN difference is not counted as outside, so it is tested separately.
  if (o.outside == 0 && !std::isnan(o.max_absolute)) return std::nullopt;
  if (is_near_as_a_whole(o, type.type, rules)) return std::nullopt;
  return fmt::format(
      "{}: {} of {} elements differ by more than {:.4g} + {:g} |reference|, the worst by {:.4g} more; {}", o.name,
      o.outside, o.elements, o.within.absolute, o.within.relative, o.max_excess, worst_element(o, type));
}

// Whether float32 keeps nothing of the exact output, as of a sum of terms that cancel: eager's own error is more than
// its size. A variant's is noise as well, which another order of the sums may make several times as large.
constexpr double order_of_sums = 16;
bool is_lost_in_rounding(const output_check& o) {
  constexpr double unrelated = 2;  // two results that have nothing in common differ by 1.4 times their size
  const double noise = std::min(o.strict_error, o.reference_error);
  return noise > unrelated && o.error <= order_of_sums * noise && o.outside == 0;
}

failure_reason exact_error(const output_check& o, const tensor_type& type, const error_rules& rules) {
  if (!is_floating(type.type) || o.elements == 0) return std::nullopt;
  const double floor = error_floor(type.type, rules), allowed = allowed_error(o, type.type, rules);
  if (o.error <= allowed) return std::nullopt;
  // Relative errors are undefined if the exact output is 0 everywhere: eager's deviation is allowed, or the floor.
  if (std::isinf(o.error) && (std::isinf(o.reference_error) ? o.outside == 0 : o.max_absolute <= floor))
    return std::nullopt;
  if (is_lost_in_rounding(o)) return std::nullopt;
  return fmt::format("{}: relative error {:.3g} against the exact output; eager's is {:.3g}, and {:.3g} is allowed; {}",
                     o.name, o.error, rules.strict ? o.strict_error : o.reference_error, allowed,
                     worst_element(o, type));
}

// Whether how an output varies is less than rounding: its few elements may be alike on a draw by chance.
bool varies_by_rounding(const output_check& o) {
  constexpr int64_t few_elements = 32;
  constexpr double hidden = 0.1;  // from where on a multiple of eager's error reaches largest_signal_error
  return o.elements <= few_elements && o.outside == 0 && o.strict_signal_error > hidden &&
         o.signal_error <= order_of_sums * o.strict_signal_error;
}

failure_reason signal(const output_check& o, const tensor_type& type, const error_rules& rules) {
  if (!is_floating(type.type) || o.elements <= 1) return std::nullopt;
  // An output that varies by less than a millionth of its size has no signal to compare.
  if (o.error > 0 && (std::isinf(o.error) || o.signal_error > signal_resolution * o.error)) return std::nullopt;
  if (is_lost_in_rounding(o) || varies_by_rounding(o)) return std::nullopt;
  const double floor = is_half(type.type) || rules.allows_half(type.type) ? signal_floor_half : signal_floor;
  if (o.signal_error <=
      allowed_error(o.strict_signal_error, o.reference_signal_error, floor, largest_signal_error, type.type, rules))
    return std::nullopt;
  return fmt::format("{}: error {:.3g} of the output's variation; eager's is {:.3g}; {}", o.name, o.signal_error,
                     o.reference_signal_error, worst_element(o, type));
}

// ---- a draw, and all of them ----------------------------------------------------------------------------------------

constexpr std::array gate_names = {"1 form", "2 close", "3 error", "4 signal"};

struct worst_numbers {
  double absolute = 0, error = 0, reference_error = 0, signal = 0;
  int64_t outputs = 0, loose = 0;
  void add(const output_check& o) {
    ++outputs;
    loose += o.loose && (o.reference_outside > 0 || o.strict_outside > 0);
    absolute = std::max(absolute, o.max_absolute);
    error = std::max(error, o.error);
    reference_error = std::max(reference_error, o.reference_error);
    signal = std::max(signal, o.signal_error);
  }
  // The reason that is recorded for a gate that all outputs passed.
  std::string passed_reason(std::size_t gate) const {
    switch (gate) {
      case 0:
        return fmt::format("{} outputs as declared", outputs);
      case 1:
        return fmt::format(
            "largest difference from eager {:.3g}{}", absolute,
            loose > 0 ? fmt::format("; eager itself needs the looser tolerance for {} outputs", loose) : std::string());
      case 2:
        return fmt::format("largest relative error {:.3g}, eager's {:.3g}", error, reference_error);
      default:
        return fmt::format("largest error {:.3g} of the output's variation", signal);
    }
  }
};

struct gate_failure {
  std::size_t gate = 0;
  std::string reason;
};

std::optional<gate_failure> first_failure(const task& t, const draw_check& draw, const error_rules& of_task) {
  const error_rules rules = of_task.on(draw.draw.kind);
  const auto& names = t.reference.text.outputs;
  const auto near = is_kernelbench(rules.options) && draw.draw.kind == draw_kind::declared
                        ? near_output::of_eager
                        : near_output::of_eager_or_exact;
  std::optional<gate_failure> worst;
  const auto note = [&](std::size_t gate, failure_reason why) {
    if (why && (!worst || gate < worst->gate)) worst = gate_failure{gate, std::move(*why)};
  };
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i >= draw.outputs.size() || draw.outputs[i].name != names[i]) {
      note(0, fmt::format("{}: the output is missing", names[i]));
      break;
    }
    const output_check& o = draw.outputs[i];
    const tensor_type& type = t.reference.types.at(names[i]);
    note(0, form(o, type));
    note(1, close(o, type, near, rules));
    note(2, exact_error(o, type, rules));
    note(3, signal(o, type, rules));
  }
  return worst;
}

std::string name_draw(const draw_check& d) {
  return fmt::format("draw {} (seed {})", enum_name(d.draw.kind), d.draw.seed);
}

void fail_gate(judgement& j, std::string gate, outcome what, std::string reason) {
  if (j.result == outcome::correct) {
    j.result = what;
    j.reason = "gate " + gate + ": " + reason;
  }
  j.gates.push_back({std::move(gate), false, std::move(reason)});
}

void judge_declared(judgement& j, const task& t, const check_report& report, const error_rules& rules) {
  worst_numbers worst;
  std::optional<gate_failure> failed;
  for (const auto& d : report.draws) {
    if (d.draw.kind != draw_kind::declared) continue;
    for (const auto& o : d.outputs)
      worst.add(o);
    auto f = first_failure(t, d, rules);
    if (f && (!failed || f->gate < failed->gate)) failed = gate_failure{f->gate, name_draw(d) + ": " + f->reason};
  }
  for (std::size_t g = 0; g < gate_names.size(); ++g) {
    if (failed && g == failed->gate) return fail_gate(j, gate_names[g], outcome::wrong_answer, failed->reason);
    j.gates.push_back({gate_names[g], true, worst.passed_reason(g)});
  }
}

void judge_others(judgement& j, const task& t, const check_report& report, const error_rules& rules) {
  std::string passed;
  for (const auto& d : report.draws) {
    if (d.draw.kind == draw_kind::declared) continue;
    if (const auto f = first_failure(t, d, rules))
      return fail_gate(j, "5 draws", outcome::wrong_answer,
                       fmt::format("{}: {}: {}", name_draw(d), gate_names[f->gate], f->reason));
    passed += (passed.empty() ? "" : ", ") + enum_name(d.draw.kind);
  }
  j.gates.push_back({"5 draws", true, passed.empty() ? "no other distribution applies to this task" : passed});
}

// What the report lacks of the plan, if anything: an error of the referee, which the variant cannot cause.
std::optional<std::string> gap(const task& t, const check_plan& plan, const check_report& report) {
  if (plan.draws.empty() || t.reference.text.outputs.empty()) return "the plan has no draws, or the task no outputs";
  if (report.draws.size() != plan.draws.size())
    return fmt::format("{} of {} draws were compared", report.draws.size(), plan.draws.size());
  for (std::size_t i = 0; i < plan.draws.size(); ++i)
    if (report.draws[i].draw.kind != plan.draws[i].kind)
      return fmt::format("draw {} is {}, but the plan requires {}", i + 1, enum_name(report.draws[i].draw.kind),
                         enum_name(plan.draws[i].kind));
  return std::nullopt;
}

bool is_near_eager(const check_report& report) {
  return std::ranges::all_of(report.draws, [](const draw_check& d) {
    return d.draw.kind != draw_kind::declared ||
           std::ranges::all_of(d.outputs, [](const output_check& o) { return o.outside_eager == 0; });
  });
}

}  // namespace

check_plan plan_check(const task& t, const verification_options& options) {
  check_plan plan;
  plan.close = close_float32;
  plan.close_loose = close_half;
  plan.eager_alone = is_kernelbench(options);
  if (accuracy_of(options) == accuracy::half && count_products(t.reference) > 0) {
    plan.close = close_half;
    plan.sized = true;
  }
  plan.call_limit_ms = options.call_limit_ms;
  plan.memory_limit_bytes = options.memory_limit_mb << 20;
  plan.draws.assign(static_cast<std::size_t>(options.declared_draws), {draw_kind::declared, 0});
  row_shapes rows;
  for (std::size_t i = 0; i < t.inputs.size(); ++i)
    rows.add(t.reference.text.inputs[i], t.inputs[i]);
  for (std::size_t i = 0; i < t.weights.size(); ++i)
    rows.add(t.reference.text.weights[i], t.weights[i]);
  if (!rows.any) return plan;
  for (const draw_kind kind : {draw_kind::standard_normal, draw_kind::wide_normal, draw_kind::around_one,
                               draw_kind::heavy_tails, draw_kind::products})
    plan.draws.push_back({kind, 0});
  if (rows.long_rows) plan.draws.push_back({draw_kind::peaked, 0});
  if (rows.several_rows) plan.draws.push_back({draw_kind::offset_rows, 0});
  for (const draw_kind kind : {draw_kind::outliers, draw_kind::outlier_above, draw_kind::outlier_below})
    plan.draws.push_back({kind, 0});
  const integer_arithmetic integers = integer_arithmetic_of(t.reference);
  if (integers == integer_arithmetic::exact) plan.draws.push_back({draw_kind::small_integers, 0});
  if (integers != integer_arithmetic::other) plan.draws.push_back({draw_kind::impulses, 0});
  return plan;
}

judgement judge(const task& t, const check_plan& plan, const check_report& report,
                const verification_options& options) {
  judgement j;
  if (report.problem) {
    j.result = report.problem->kind;
    j.reason = report.problem->reason;
    j.gates.push_back({"run", false, report.problem->reason});
    return j;
  }
  if (const auto missing = gap(t, plan, report)) {
    fail_gate(j, "run", outcome::unmeasurable, *missing);
    return j;
  }
  j.ill_conditioned = why_ill_conditioned(t, report);
  j.near_eager = is_near_eager(report);
  const error_rules rules(t, options);
  judge_declared(j, t, report, rules);
  if (j.result == outcome::correct) judge_others(j, t, report, rules);
  if (j.result == outcome::correct && plan.repeat_first) {
    if (report.repeatable) {
      j.gates.push_back({"A/B/A", true, "repeating the first draw gave the same bits"});
    } else {
      fail_gate(j, "A/B/A", outcome::inconsistent, "repeating the first draw gave different bits");
    }
  }
  if (j.result == outcome::correct) j.reason = fmt::format("correct on {} draws", report.draws.size());
  return j;
}

judgement judge_timing_draws(const task& t, const check_plan& gates, const check_report& report,
                             const verification_options& options) {
  if (!report.problem && report.draws.empty()) return {};
  check_plan plan = gates;
  plan.repeat_first = false;
  plan.draws.clear();
  for (const auto& d : report.draws)
    plan.draws.push_back(d.draw);
  return judge(t, plan, report, options);
}

}  // namespace cudal1
