// Of which inputs must every right program read every element? The rule is sound and incomplete: it follows one path of
// steps from an output back to the input, along which just one operand of each step depends on that input, and keeps
// what is certain of the values on it. Where anything could cancel (a softmax that is summed, x - mean(x), a clamp of a
// clamp, a product with a mask), it claims nothing. Results that are provably constant are so never taken for fraud.
//
// What is certain of a value v, for almost all contents of everything else:
//   kept           the outputs determine v
//   own_anywhere   each element reaches outputs by itself, and any small change of it shows there
//   own_somewhere  the same, but only a change to some other value must show
//   felt_anywhere, felt_somewhere: as above, of one element that changes alone: several together may cancel
#include <algorithm>
#include <cstdint>
#include <initializer_list>

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

// With what each implies.
unsigned closed(unsigned c) {
  if ((c & kept) != 0) c |= own_anywhere;
  if ((c & own_anywhere) != 0) c |= own_somewhere | felt_anywhere;
  if ((c & (own_somewhere | felt_anywhere)) != 0) c |= felt_somewhere;
  return c;
}

// What a step does to one of its operands, the others being fixed.
enum class effect {
  nothing_known,
  onto,           // each element alone, one to one, onto all numbers: adding, scaling, moving
  one_to_one,     // each element alone, one to one: exp, sigmoid
  smooth,         // each element alone, constant nowhere: square, gelu
  flat_in_parts,  // each element alone, not constant: relu, clamp
  summed,         // each element into one sum: sum, mean
  reduced,        // each element into one result, smoothly: norms, logsumexp
  chosen,         // the largest or smallest: amax, max_pool
  mixed_linear,   // each element into several results, by factors that are not 0: products, convolutions, cumsum
  mixed_smooth    // softmax, normalization
};

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
    case effect::flat_in_parts:
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
  const aten_step& s;
  const operator_call& call;
  const tensor_type& result;
  std::string operand;  // the one that depends on the input in question
  const tensor_type& type;

  bool is(std::string_view argument_name) const {
    const auto* found = argument<tensor_argument>(call, argument_name);
    return found != nullptr && found->name == operand;
  }

  // Whether every other operand is nowhere 0 but by chance: a tensor that the task draws from a continuous
  // distribution. In a product, a square matrix with zeros off its diagonal will do: no row or column of it is all
  // zeros.
  bool others_are_generic(bool in_product = false) const {
    const auto names = operands_of(call);
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& n) { return n == operand || is_drawn(n, in_product); });
  }

  bool is_drawn(const std::string& value, bool in_product) const {
    const auto base = p.view_of.find(value);
    const std::string& name = base == p.view_of.end() ? value : base->second;
    return is_drawn(name, p.text.inputs, t.inputs, in_product) || is_drawn(name, p.text.weights, t.weights, in_product);
  }

  static bool is_drawn(const std::string& name, const std::vector<tensor_declaration>& declared,
                       const std::vector<input_spec>& specs, bool in_product) {
    for (std::size_t i = 0; i < declared.size(); ++i) {
      const auto& type = declared[i].type;
      if (declared[i].name != name || !is_floating(type.type)) continue;
      const bool square = type.dim() >= 2 && type.shape.back() == type.shape[type.shape.size() - 2];
      const bool free = std::all_of(specs[i].facts.begin(), specs[i].facts.end(), [&](fact f) {
        return f == fact::non_negative || f == fact::symmetric || (in_product && square && f != fact::one_hot);
      });
      const auto kind = specs[i].draw.kind;
      // A content that is not fixed is taken for one draw of its distribution, as the checks take it.
      if (specs[i].content && specs[i].content->fixed) return false;
      return free && ((kind == distribution::normal && specs[i].draw.std > 0) || kind == distribution::uniform);
    }
    return false;
  }

  // The scalar argument is not 0; also where there is none of that name.
  bool not_zero(std::string_view name) const {
    const auto* value = argument<scalar_value>(call, name);
    return value == nullptr || std::visit([](auto x) { return static_cast<double>(x) != 0; }, *value);
  }

  int64_t size_along(int64_t dim) const {
    const int64_t n = type.dim();
    return n == 0 ? 1 : type.shape[static_cast<std::size_t>(((dim % n) + n) % n)];
  }
};

bool is_move(std::string_view op) {
  return is_one_of(
      op, {"view",   "reshape", "permute",   "transpose", "swapaxes",  "t",      "mT",     "numpy_T",    "movedim",
           "expand", "squeeze", "unsqueeze", "flatten",   "unflatten", "alias",  "detach", "contiguous", "clone",
           "cat",    "concat",  "stack",     "flip",      "roll",      "repeat", "dropout"});
}

effect of_arithmetic(const step_view& v, std::string_view op) {
  if (is_one_of(op, {"add", "sub", "subtract", "rsub"}))
    return v.not_zero("alpha") || (op != "rsub" && v.is("self")) ? effect::onto : effect::nothing_known;
  if (is_one_of(op, {"mul", "multiply"}))
    return v.not_zero("other") && v.others_are_generic() ? effect::onto : effect::nothing_known;
  if (is_one_of(op, {"div", "divide", "true_divide"}) && !v.s.op.ends_with("_mode"))
    return v.is("self") && v.not_zero("other") ? effect::onto : effect::nothing_known;
  if (op == "pow")
    return v.s.op.ends_with("Tensor_Scalar") && v.not_zero("exponent") ? effect::smooth : effect::nothing_known;
  return effect::nothing_known;
}

effect of_element(const step_view& v, std::string_view op) {
  if (is_one_of(op, {"neg", "negative"})) return effect::onto;
  if (is_one_of(op, {"exp", "expm1", "tanh", "sigmoid", "atan", "sinh", "asinh", "erf", "erfc", "softplus", "selu",
                     "log_sigmoid", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"}))
    return effect::one_to_one;
  if (is_one_of(op, {"square", "gelu", "silu", "mish", "sin", "cos", "cosh"})) return effect::smooth;
  if (is_one_of(op, {"relu", "relu6", "abs", "absolute", "hardswish", "hardsigmoid", "leaky_relu", "elu"}))
    return effect::flat_in_parts;
  if (is_one_of(op, {"clamp", "clip", "clamp_min", "clamp_max", "hardtanh"})) {
    const auto bound = [&](std::string_view a, std::string_view b) -> std::optional<double> {
      for (const auto name : {a, b})
        if (const auto* value = argument<scalar_value>(v.call, name))
          return std::visit([](auto x) { return static_cast<double>(x); }, *value);
      return std::nullopt;
    };
    const auto low = bound("min", "min_val"), high = bound("max", "max_val");
    return operands_of(v.call).size() == 1 && !(low && high && *low >= *high) ? effect::flat_in_parts
                                                                              : effect::nothing_known;
  }
  return effect::nothing_known;
}

effect of_reduction(const step_view& v, std::string_view op) {
  if (is_one_of(op, {"sum", "mean"})) return effect::summed;
  const bool several = v.type.numel() >= 2 * std::max<int64_t>(1, v.result.numel());
  if (is_one_of(op, {"logsumexp", "linalg_vector_norm", "norm", "frobenius_norm", "var", "std"}) && several)
    return effect::reduced;
  if (is_one_of(op, {"amax", "amin", "max", "min"}) && v.s.op.find("other") == std::string::npos) return effect::chosen;
  if (op.starts_with("max_pool")) return effect::chosen;
  return effect::nothing_known;
}

effect of_mixing(const step_view& v, std::string_view op) {
  const bool factor = v.is("self") || v.is("mat1") || v.is("mat2") || v.is("batch1") || v.is("batch2") ||
                      v.is("other") || v.is("input") || v.is("weight");
  if (is_product(v.s) || is_convolution(v.s)) {
    const bool added = (op == "addmm" || op == "baddbmm") && v.is("self");
    const bool attention = op == "scaled_dot_product_attention";
    return factor && !added && !attention && v.not_zero("alpha") && v.others_are_generic(true) ? effect::mixed_linear
                                                                                               : effect::nothing_known;
  }
  if (op == "cumsum" || op.starts_with("avg_pool")) return effect::mixed_linear;
  if (is_one_of(op, {"softmax", "log_softmax", "_softmax", "_log_softmax"}))
    return v.size_along(integer_of(v.call, "dim", -1)) > 1 ? effect::mixed_smooth : effect::nothing_known;
  if (!v.is("input") || !v.others_are_generic()) return effect::nothing_known;
  constexpr int64_t enough = 3;  // of two elements, normalization leaves the sign
  if (op == "layer_norm" || op == "native_layer_norm" || op == "rms_norm")
    return v.size_along(-1) >= enough ? effect::mixed_smooth : effect::nothing_known;
  if (op == "group_norm") {
    const int64_t groups = std::max<int64_t>(1, integer_of(v.call, "num_groups", 1));
    const int64_t group = v.type.numel() / std::max<int64_t>(1, v.type.shape.front() * groups);
    return group >= enough ? effect::mixed_smooth : effect::nothing_known;
  }
  if (op == "batch_norm") {
    const auto* training = argument<scalar_value>(v.call, "training");
    const bool by_batch = training == nullptr || *training != scalar_value(false);
    return by_batch ? effect::nothing_known : effect::onto;
  }
  return effect::nothing_known;
}

effect effect_of(const step_view& v) {
  const auto op = base_name(v.s);
  if (is_move(op)) return effect::onto;
  if (op == "to" || op == "_to_copy")
    return is_floating(v.type.type) && is_floating(v.result.type) ? effect::onto : effect::nothing_known;
  if (op == "mse_loss") return effect::reduced;
  for (const auto of : {of_arithmetic, of_element, of_reduction, of_mixing})
    if (const auto found = of(v, op); found != effect::nothing_known) return found;
  return effect::nothing_known;
}

struct known {
  unsigned certain = 0;
  double share = 1;  // of the elements that windows on the way ever meet
};

// What is certain of the operand.
known before(const step_view& v, const known& after) {
  effect e = effect_of(v);
  const bool alone = e == effect::onto || e == effect::one_to_one || e == effect::smooth || e == effect::flat_in_parts;
  unsigned c = before(e, after.certain);
  // Where an element stands for several of the result, they change together.
  if (alone && v.result.numel() > v.type.numel() && !base_name(v.s).ends_with("cat") && base_name(v.s) != "stack")
    c = closed(before(e, after.certain & (kept | own_anywhere | own_somewhere)));
  const auto windows = windows_of(v.s, v.call, v.result);
  const bool over_operand = !windows.empty() && !is_transposed(v.s, v.call) && !v.is("weight");
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
    const step_view v{p, t, s, p.calls[i], p.results[i].front().type, operands.front(), p.types.at(operands.front())};
    const known found = before(v, after->second);
    auto& have = values[operands.front()];
    if (found.certain != 0 && have.certain == 0) have = found;
  }
  const auto found = values.find(input);
  return found != values.end() && (found->second.certain & felt_somewhere) != 0 ? found->second.share : 0;
}

// The rule changes one element alone: the sum of a simplex's row, the square of a sign are known without reading them.
bool varies_freely(distribution kind) {
  return kind != distribution::constant && kind != distribution::signs && kind != distribution::simplex;
}

}  // namespace

std::map<std::string, double> needed_inputs(const task& t) {
  std::map<std::string, double> shares;
  if (!t.reference.is_pure_aten()) return shares;
  for (std::size_t i = 0; i < t.inputs.size(); ++i) {
    const auto& name = t.reference.text.inputs[i].name;
    shares[name] = varies_freely(t.inputs[i].draw.kind) ? needed_share(t, name) : 0;
  }
  return shares;
}

}  // namespace cudal1::work_parts
