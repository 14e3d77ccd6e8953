// Finds the inputs of which every correct program must read every element. The rule is sound but incomplete: it follows
// one path of steps from an output back to the input, along which exactly one operand of each step depends on that
// input, and tracks what is certain about the values on it. Where anything could cancel (a softmax that is summed,
// x - mean(x), a clamp of a clamp, a product with a mask), it claims nothing, so that a variant that skips inputs of a
// provably constant result is not reported as cheating.
//
// What can be certain about a value v, for almost all values of everything else:
//   kept           the outputs determine v
//   own_anywhere   each element affects the outputs independently, and any small change of it changes them
//   own_somewhere  the same, but only a change to some other value must change the outputs
//   felt_anywhere, felt_somewhere: the same for one element that changes alone; changes of several may cancel
#include <algorithm>
#include <cstdint>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1::work_parts {

namespace {

enum certainty : unsigned {
  kept = 1,
  own_anywhere = 2,
  own_somewhere = 4,
  felt_anywhere = 8,
  felt_somewhere = 16,
};

// Adds what each certainty implies.
unsigned closed(unsigned c) {
  if ((c & kept) != 0) c |= own_anywhere;
  if ((c & own_anywhere) != 0) c |= own_somewhere | felt_anywhere;
  if ((c & (own_somewhere | felt_anywhere)) != 0) c |= felt_somewhere;
  return c;
}

unsigned before(effect e, unsigned after) {
  const bool whole = (after & (kept | own_anywhere)) != 0;
  const auto if_has = [&](unsigned asked, unsigned then) { return (after & asked) != 0 ? then : 0U; };
  switch (e) {
    case effect::nothing_known:
      return 0;
    case effect::onto:
      return after;
    case effect::one_to_one:
      return closed(after & (kept | own_anywhere | felt_anywhere));
    case effect::smooth:
      return closed(if_has(own_anywhere, own_anywhere) | if_has(felt_anywhere, felt_anywhere));
    case effect::constant_on_intervals:
      return closed(if_has(own_anywhere, own_somewhere) | if_has(felt_anywhere, felt_somewhere));
    case effect::summed:
      return closed(if_has(felt_anywhere, felt_anywhere) | if_has(felt_somewhere, felt_somewhere));
    case effect::reduced:
      return closed(if_has(felt_anywhere, felt_anywhere));
    case effect::chosen:
      return if_has(felt_anywhere, felt_somewhere);
    case effect::mixed_linear:
      return closed((whole ? felt_anywhere : 0U) | if_has(own_somewhere, felt_somewhere));
    case effect::mixed_smooth:
      return whole ? closed(felt_anywhere) : 0U;
  }
  return 0;
}

struct step_view {
  const checked_program& p;
  const task& t;
  const operator_call& call;
  const tensor_type& result;
  std::string operand;  // the one that depends on the input in question
  const tensor_type& type;

  bool is(std::string_view argument_name) const {
    const auto* found = argument<tensor_argument>(call, argument_name);
    return found != nullptr && found->name == operand;
  }

  bool is_product() const { return traits_of(call).product.left[0] != 0; }

  // Whether every other operand is almost surely nowhere 0: a tensor that the task draws from a continuous
  // distribution. In a product, a square matrix with declared zeros qualifies too: none of its rows or columns is all
  // zeros.
  bool others_are_generic() const {
    const auto names = operands_of(call);
    return std::all_of(names.begin(), names.end(), [&](const std::string& n) { return n == operand || is_drawn(n); });
  }

  bool is_drawn(const std::string& value) const {
    const auto base = p.view_of.find(value);
    const std::string& name = base == p.view_of.end() ? value : base->second;
    return is_drawn(name, p.text.inputs, t.inputs) || is_drawn(name, p.text.weights, t.weights);
  }

  bool is_drawn(const std::string& name, const std::vector<tensor_declaration>& declared,
                const std::vector<input_spec>& specs) const {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const auto& type = declared[i].type;
      if (declared[i].name != name || !is_floating(type.type)) continue;
      const bool square = type.dim() >= 2 && type.shape.back() == type.shape[type.shape.size() - 2];
      const bool free = std::all_of(specs[i].facts.begin(), specs[i].facts.end(), [&](fact f) {
        return f == fact::non_negative || f == fact::symmetric || (is_product() && square && f != fact::one_hot);
      });
      const auto kind = specs[i].draw.kind;
      // Content that is not fixed counts as one draw of its distribution, as in the checks.
      if (specs[i].content && specs[i].content->fixed) return false;
      return free && ((kind == distribution::normal && specs[i].draw.std > 0) || kind == distribution::uniform);
    }
    return false;
  }

  // Whether the scalar argument is not 0; true also where there is no such argument.
  bool not_zero(std::string_view name) const {
    const auto* value = argument<scalar_value>(call, name);
    return value == nullptr || std::visit([](auto x) { return static_cast<double>(x) != 0; }, *value);
  }

  int64_t size_along(int64_t dim) const {
    const int64_t n = type.dim();
    return n == 0 ? 1 : type.shape[static_cast<std::size_t>(((dim % n) + n) % n)];
  }
};

// The value of a numeric argument; `otherwise` (the record's) where there is none.
double limit(const step_view& v, std::string_view name, double otherwise) {
  const auto* value = argument<scalar_value>(v.call, name);
  return value == nullptr ? otherwise : std::visit([](auto x) { return static_cast<double>(x); }, *value);
}

// Whether a clamp's lower limit is below its upper limit.
bool leaves_room(const step_view& v, const clipping& c) {
  return limit(v, c.low_argument, c.limits.low) < limit(v, c.high_argument, c.limits.high);
}

bool is_factor(const step_view& v) {
  const auto& factors = traits_of(v.call).product;
  return v.is(factors.left) || v.is(factors.right);
}

bool holds(const step_view& v, effect_condition where) {
  constexpr int64_t enough = 3;  // normalization of two elements keeps only a sign
  switch (where) {
    case effect_condition::none:
      return true;
    case effect_condition::nonzero_others:
      return v.others_are_generic();
    case effect_condition::several:
      return v.type.numel() >= 2 * std::max<int64_t>(1, v.result.numel());
    case effect_condition::several_in_dim:
      return v.size_along(integer_of(v.call, "dim", -1)) > 1;
    case effect_condition::wide_rows:
      return v.others_are_generic() && v.size_along(-1) >= enough;
    case effect_condition::wide_groups: {
      const int64_t groups = std::max<int64_t>(1, integer_of(v.call, "num_groups", 1));
      return v.others_are_generic() && v.type.numel() / std::max<int64_t>(1, v.type.shape.front() * groups) >= enough;
    }
    case effect_condition::given_statistics: {
      const auto* training = argument<scalar_value>(v.call, "training");
      return v.others_are_generic() && training != nullptr && *training == scalar_value(false);
    }
    case effect_condition::floating:
      return is_floating(v.type.type) && is_floating(v.result.type);
  }
  return false;
}

effect effect_of(const step_view& v) {
  const auto& traits = traits_of(v.call);
  const auto& e = traits.changes;
  const bool spared = !e.unscaled.empty() && v.is(e.unscaled);
  const bool certain = (e.operand.empty() || v.is(e.operand)) && (spared || e.factor.empty() || v.not_zero(e.factor)) &&
                       (!v.is_product() || is_factor(v)) && (!traits.clips || leaves_room(v, *traits.clips));
  return certain && holds(v, e.where) ? e.what : effect::nothing_known;
}

struct known {
  unsigned certain = 0;
  double share = 1;  // of the elements: those that the windows on the path cover
};

// What is certain about the operand.
known before(const step_view& v, const known& after) {
  effect e = effect_of(v);
  const bool alone =
      e == effect::onto || e == effect::one_to_one || e == effect::smooth || e == effect::constant_on_intervals;
  unsigned c = before(e, after.certain);
  // Where an element is broadcast to several of the result, they change together.
  if (alone && v.result.numel() > v.type.numel() && record_of(v.call).kind != operator_kind::join)
    c = closed(before(e, after.certain & (kept | own_anywhere | own_somewhere)));
  const auto windows = windows_of(v.call, v.result);
  const bool over_operand = !windows.empty() && !is_transposed(v.call) && !v.is("weight");
  return {c, after.share * (over_operand ? touched_share(windows) : 1)};
}

std::set<std::string> depending_on(const checked_program& p, const std::string& input) {
  std::set<std::string> values{input};
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    const auto names = operands_of(p.calls[i]);
    if (std::none_of(names.begin(), names.end(), [&](const auto& n) { return values.contains(n); })) continue;
    const auto& results = std::get<aten_step>(p.text.steps[i]).results;
    values.insert(results.begin(), results.end());
  }
  return values;
}

double needed_share(const task& t, const std::string& input) {
  const checked_program& p = t.reference;
  const auto dependent = depending_on(p, input);
  std::map<std::string, known> values;
  for (const auto& output : p.text.outputs)
    values[output] = {closed(kept), 1};
  for (std::size_t i = p.text.steps.size(); i-- > 0;) {
    const auto& s = std::get<aten_step>(p.text.steps[i]);
    const auto after = s.results.empty() ? values.end() : values.find(s.results.front());
    if (after == values.end()) continue;
    std::vector<std::string> operands = operands_of(p.calls[i]);
    std::erase_if(operands, [&](const std::string& n) { return !dependent.contains(n); });
    if (operands.size() != 1) continue;
    const step_view v{p, t, p.calls[i], p.results[i].front().type, operands.front(), p.types.at(operands.front())};
    const known found = before(v, after->second);
    auto& have = values[operands.front()];
    if (found.certain != 0 && have.certain == 0) have = found;
  }
  const auto found = values.find(input);
  return found != values.end() && (found->second.certain & felt_somewhere) != 0 ? found->second.share : 0;
}

// The rule varies single elements, but the sum of a simplex's row or the square of a sign is known without reading it.
bool varies_freely(distribution kind) {
  return kind != distribution::constant && kind != distribution::signs && kind != distribution::simplex;
}

}  // namespace

std::map<std::string, double> needed_inputs(const task& t) {
  std::map<std::string, double> shares;
  if (!t.reference.is_pure_aten()) return shares;
  for (std::size_t i = 0; i < t.inputs.size(); ++i) {
    const auto& name = t.reference.text.inputs[i].name;
    const bool fixed = t.inputs[i].content && t.inputs[i].content->fixed;
    shares[name] = varies_freely(t.inputs[i].draw.kind) && !fixed ? needed_share(t, name) : 0;
  }
  return shares;
}

}  // namespace cudal1::work_parts
