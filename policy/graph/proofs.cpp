#include "policy/graph/proofs.hpp"

#include <algorithm>
#include <cmath>

#include "config/base/describe.hpp"
#include "policy/graph/linear_proofs.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// The original step that defines the value, whatever computes it now; null for inputs and weights.
const graph_step* definition_of(const graph& g, const std::string& value) {
  return g.definition_of(g.resolve(value));
}

// A product of two tensors without an added term or a transposition.
bool is_plain_product(const graph_step& s) {
  const auto& r = s.record();
  return r.kind == operator_kind::product && r.traits.product.left == std::string_view("self");
}

bool is_square_matrix(const tensor_type& t) {
  return t.dim() >= 2 && t.shape[t.shape.size() - 1] == t.shape[t.shape.size() - 2];
}

std::optional<std::string> prove_triangular(const graph& g, const std::string& value, fact wanted) {
  const bool upper = wanted == fact::upper_triangular;
  if (auto diagonal = prove(g, value, fact::diagonal)) return diagonal;
  const graph_step* s = definition_of(g, value);
  if (s == nullptr) return std::nullopt;
  const std::string& op = s->op();
  const auto& traits = s->record().traits;
  const int64_t diagonal = integer_argument(*s, "diagonal").value_or(0);
  if (traits.reads == (upper ? reading::upper_triangle : reading::lower_triangle) &&
      (upper ? diagonal >= 0 : diagonal <= 0))
    return fmt::format("{} comes out of {} in step {}", value, op, s->number);
  if (is_plain_product(*s)) {
    const std::string left = operand_of(g, *s, traits.product.left), right = operand_of(g, *s, traits.product.right);
    const auto a = prove(g, left, wanted), b = prove(g, right, wanted);
    if (a && b && !is_never_finite(g, left) && !is_never_finite(g, right) && is_square_matrix(g.type_of(value)))
      return fmt::format("{}; {}; a product of two {}-triangular matrices of finite elements is one too", *a, *b,
                         upper ? "upper" : "lower");
  }
  return std::nullopt;
}

std::optional<std::string> prove_diagonal_value(const graph& g, const std::string& value) {
  const graph_step* s = definition_of(g, value);
  if (s == nullptr) return std::nullopt;
  const std::string_view offset = s->record().traits.diagonal_of;
  if (!offset.empty() && integer_argument(*s, offset).value_or(0) == 0 &&
      g.type_of(operand_of(g, *s, "self")).dim() + 1 == g.type_of(value).dim())
    return fmt::format("{} is made of its diagonal by {} in step {}", value, s->op(), s->number);
  return std::nullopt;
}

// ---- drops ----

expected<drop_proof> stays(const graph_step& s, const std::string& why) {
  return fail(errc::invalid_argument, "step {} ({}) cannot be dropped: {}", s.number, s.op(), why);
}

expected<drop_proof> within(const graph& g, const graph_step& s, double low, double high) {
  const std::string x = operand_of(g, s, "self");
  if (g.type_of(x) != s.result_types[0]) return stays(s, "its result has another type, shape or layout");
  const value_range range = range_of(g, x);
  if (range.low >= low && range.high <= high)
    return drop_proof{x, fmt::format("step {} ({}) changes nothing in [{}, {}], and {} lies in [{}, {}]: {}", s.number,
                                     s.op(), low, high, x, range.low, range.high, range.why)};
  return stays(s, fmt::format("{} is not known to be in [{}, {}]", x, low, high));
}

expected<drop_proof> neutral_number(const graph& g, const graph_step& s, const char* name, double neutral) {
  const auto number = number_argument(s, name);
  const std::string x = operand_of(g, s, "self");
  if (tensor_argument_name(s, name) || !number || *number != neutral)
    return stays(s, fmt::format("{} is not the number {}", name, neutral));
  if (g.type_of(x) != s.result_types[0]) return stays(s, "it changes the type");
  return drop_proof{x, fmt::format("step {} ({}) has {} = {}, which changes nothing", s.number, s.op(), name, neutral)};
}

expected<drop_proof> same_type(const graph& g, const graph_step& s, const std::string& reason) {
  const std::string x = operand_of(g, s, s.argument("self") != nullptr ? "self" : "input");
  if (g.type_of(x) != s.result_types[0]) return stays(s, "its result has another type, shape or layout");
  return drop_proof{x, fmt::format("step {} ({}): {}", s.number, s.op(), reason)};
}

// An operator that is its own inverse.
expected<drop_proof> undone(const graph& g, const graph_step& s) {
  const graph_step* before = definition_of(g, operand_of(g, s, "self"));
  if (before == nullptr || before->op() != s.op()) return stays(s, "its operand is not the same operator's result");
  if (s.record().traits.swaps == transposition::named) {
    const int64_t rank = s.result_types[0].dim();
    const auto pair = [&](const graph_step& t) {
      const auto dim = [&](std::size_t argument) {
        const auto d = std::get<int64_t>(std::get<scalar_value>(t.use->arguments[argument].second));
        return d < 0 ? d + rank : d;
      };
      return std::pair(std::min(dim(1), dim(2)), std::max(dim(1), dim(2)));
    };
    if (pair(s) != pair(*before)) return stays(s, "the two transposes swap different dimensions");
  }
  const std::string x = operand_of(g, *before, "self");
  if (g.type_of(x) != s.result_types[0]) return stays(s, "the layout differs");
  return drop_proof{x,
                    fmt::format("step {} undoes step {}: {} twice is the identity", s.number, before->number, s.op())};
}

expected<drop_proof> over_one_element(const graph& g, const graph_step& s) {
  const std::string x = operand_of(g, s, "self");
  const tensor_type& type = g.type_of(x);
  const auto dims = integers_argument(s, "dim");
  if (!dims || dims->empty() || type != s.result_types[0]) return stays(s, "it reduces more than one element");
  for (const auto d : *dims) {
    if (type.shape[static_cast<std::size_t>(d < 0 ? d + type.dim() : d)] != 1)
      return stays(s, "it reduces more than one element");
  }
  return drop_proof{x, fmt::format("step {} ({}) goes over dimensions of size 1 and keeps them", s.number, s.op())};
}

// The limits of a clamp; empty where one is not a known number.
std::optional<bounds> limits_of(const graph_step& s, const clipping& c) {
  bounds out = c.limits;
  for (const auto& [name, value] : {std::pair(c.low_argument, &out.low), std::pair(c.high_argument, &out.high)}) {
    if (name.empty() || s.argument(name) == nullptr || s.argument(name)->index() == 0) continue;
    const auto number = number_argument(s, name);
    if (!number) return std::nullopt;
    *value = *number;
  }
  return out;
}

// The proof that the operand of a step that reads a triangle is one.
expected<drop_proof> cuts_nothing(const graph& g, const graph_step& s) {
  const bool upper = s.record().traits.reads == reading::upper_triangle;
  const int64_t diagonal = integer_argument(s, "diagonal").value_or(0);
  const std::string x = operand_of(g, s, "self");
  const auto proof = prove(g, x, upper ? fact::upper_triangular : fact::lower_triangular);
  if (!proof || (upper ? diagonal > 0 : diagonal < 0) || g.type_of(x) != s.result_types[0])
    return stays(s, fmt::format("{} is not known to be {} triangular", x, upper ? "upper" : "lower"));
  return drop_proof{x, fmt::format("step {} ({}) changes nothing: {}", s.number, s.op(), *proof)};
}

// Whether the step's result is the same where it reads a tensor of fewer elements, or dimensions, in the place of
// `value`, which that tensor was spread to: another operand has all elements of the result.
bool spreads_itself(const graph& g, const graph_step& s, const std::string& value) {
  if (s.group >= 0 || s.is_replaced() || s.text->results.size() != 1) return false;
  const auto& kernel = s.record().traits.kernel;
  const tensor_type& result = s.result_types[0];
  if (s.record().kind != operator_kind::pointwise || !kernel || !result.is_contiguous()) return false;
  bool is_whole = false;
  for (const auto& other : g.operands(s)) {
    const tensor_type& type = g.type_of(other);
    if (other == value || type.shape != result.shape) continue;
    if (!type.is_contiguous()) return false;  // the result's layout could change
    is_whole = true;
  }
  return is_whole;
}

expected<drop_proof> spread_anyway(const graph& g, const graph_step& s) {
  const std::string& value = s.text->results[0];
  if (g.is_output(value)) return stays(s, "its result is an output");
  for (const int reader : g.readers(value))
    if (!spreads_itself(g, g.step_at(reader), value))
      return stays(s, fmt::format("step {} ({}) might not spread its operand itself", reader, g.step_at(reader).op()));
  return drop_proof{
      operand_of(g, s, "self"),
      fmt::format("step {} ({}) only repeats elements, and what reads them does so itself", s.number, s.op())};
}

expected<drop_proof> reason_to_drop(const graph& g, const graph_step& s) {
  const operator_traits& traits = s.record().traits;
  if (traits.clips) {
    const auto limits = limits_of(s, *traits.clips);
    return limits ? within(g, s, limits->low, limits->high) : stays(s, "its limits are not known");
  }
  if (traits.identity && number_argument(s, "scale").value_or(1) == 1)
    return within(g, s, traits.identity->low, traits.identity->high);
  if (traits.neutral.argument[0] != 0) return neutral_number(g, s, traits.neutral.argument, traits.neutral.value);
  if (boolean_argument(s, "train").value_or(false)) return stays(s, "it is in training mode");
  if (traits.idle[0] != 0) {
    auto same = same_type(g, s, traits.idle);
    return same || !traits.spreads ? same : spread_anyway(g, s);
  }
  if (traits.is_self_inverse) return undone(g, s);
  if (traits.is_noop_on_size_one) return over_one_element(g, s);
  if (traits.reads == reading::upper_triangle || traits.reads == reading::lower_triangle) return cuts_nothing(g, s);
  return stays(s, "it is not known to change nothing");
}

}  // namespace

std::string operand_of(const graph& g, const graph_step& s, std::string_view argument) {
  const auto value = tensor_argument_name(s, argument);
  return value ? g.resolve(*value) : std::string();
}

bool only_first_is_read(const graph& g, const graph_step& s) {
  const auto& results = s.text->results;
  return std::all_of(results.begin() + 1, results.end(), [&](const auto& value) {
    return value.empty() || (!g.is_output(value) && g.readers(value).empty());
  });
}

bool is_batch_norm(const graph_step& s) {
  return s.op() == "aten::batch_norm" || s.op() == "aten::native_batch_norm" ||
         s.op() == "aten::_native_batch_norm_legit_no_training";
}

const graph_step* made_for(const graph& g, int step, const std::string& value) {
  const graph_step* made = g.producer(value);
  if (made == nullptr || made->dropped || made->is_replaced()) return nullptr;
  return g.readers(value) == std::vector<int>{step} && !g.is_output(value) ? made : nullptr;
}

band band_of(const graph& g, const std::string& value) {
  band out;
  if (prove(g, value, fact::upper_triangular)) out.below = 0;
  if (prove(g, value, fact::lower_triangular)) out.above = 0;
  const graph_step* s = definition_of(g, value);
  if (s == nullptr) return out;
  const auto& traits = s->record().traits;
  const int64_t diagonal = integer_argument(*s, "diagonal").value_or(0);
  const bool lower = traits.reads == reading::lower_triangle, upper = traits.reads == reading::upper_triangle;
  if (lower) out.above = std::min(out.above, diagonal);
  if (upper) out.below = std::min(out.below, -diagonal);
  const bool keeps_zeros = traits.keeps_zeros && g.operands(*s).size() == 1 &&
                           g.type_of(operand_of(g, *s, "self")).shape == g.type_of(value).shape;
  const double number = number_argument(*s, "other").value_or(1);
  if (!lower && !upper && (!keeps_zeros || !std::isfinite(number) || number == 0)) return out;
  const band from = band_of(g, operand_of(g, *s, "self"));
  return {std::min(out.below, from.below), std::min(out.above, from.above)};
}

std::optional<std::string> prove(const graph& g, const std::string& name, fact property) {
  const std::string& value = g.resolve(name);
  if (value.empty()) return std::nullopt;
  if (g.is_parameter(value) && g.origin().has_fact(value, property))
    return fmt::format("the task declares {} {}", value, enum_name(property));
  switch (property) {
    case fact::diagonal:
      return prove_diagonal_value(g, value);
    case fact::upper_triangular:
      return prove_triangular(g, value, property);
    case fact::lower_triangular:
      return prove_triangular(g, value, property);
    case fact::non_negative: {
      const value_range range = range_of(g, value);
      if (range.low >= 0) return range.why;
      return std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

value_range range_of(const graph& g, const std::string& name) {
  const std::string& value = g.resolve(name);
  const bounds& within = g.facts_of(value).within;
  const graph_step* s = definition_of(g, value);
  std::string why;
  if (s == nullptr && is_floating(g.type_of(value).type))
    why = fmt::format("the task declares {} non-negative", value);
  else if (s == nullptr)
    why = fmt::format("{} holds numbers of {}", value, name_of(g.type_of(value).type));
  else if (selects_elements(s->record()))
    why = range_of(g, operand_of(g, *s, s->argument("self") != nullptr ? "self" : "input")).why;
  else
    why = fmt::format("{} comes out of {} in step {}", value, s->op(), s->number);
  return {within.low, within.high, std::isfinite(within.low) || std::isfinite(within.high) ? why : ""};
}

bool is_never_finite(const graph& g, const std::string& value) {
  const finiteness known = g.facts_of(value).finite;
  return known == finiteness::lost || known == finiteness::nan;
}

expected<drop_proof> prove_drop(const graph& g, const graph_step& s) {
  if (s.dropped) return stays(s, "it is dropped already");
  const bool alone = s.group >= 0 && g.groups()[static_cast<std::size_t>(s.group)].steps.size() == 1;
  if (s.group >= 0 && !(s.is_replaced() && alone)) return stays(s, fmt::format("it is in group {}", s.group));
  bool read = false;
  for (const auto& result : s.text->results)
    read = read || (!result.empty() && (g.is_output(result) || !g.readers(result).empty()));
  if (!read) return drop_proof{"", fmt::format("nothing reads a result of step {} ({})", s.number, s.op())};
  if (s.is_replaced() || s.text->results.size() != 1) return stays(s, "its results are read");
  auto reason = reason_to_drop(g, s);
  if (!reason && (s.op().starts_with("aten::add.") || s.op().starts_with("aten::sub."))) reason = prove_shift(g, s);
  CUDAL1_TRY(drop_proof proof, std::move(reason));
  // An output has its own memory: it cannot be a parameter, a view or another output.
  if (g.is_output(s.text->results[0])) {
    const auto& views = g.origin().reference.view_of;
    if (g.is_parameter(proof.replaced_by) || g.is_output(proof.replaced_by) || views.contains(proof.replaced_by))
      return stays(s, "its result is an output, which must not share memory with another value");
  }
  return proof;
}

expected<diagonal_proof> prove_diagonal(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) is not a diagonal product: {}", s.number, s.op(), why);
  };
  if (s.dropped || s.group >= 0) return no("it is dropped or in a group");
  if (!is_plain_product(s)) return no("only aten::mm and aten::matmul are");
  const auto& operands = s.record().traits.product;
  const std::string a = operand_of(g, s, operands.left);
  const std::string b = operand_of(g, s, operands.right);
  const tensor_type& result = s.result_types[0];
  if (g.type_of(a).dim() != 2 || g.type_of(b).dim() != 2 || result.type != dtype::float32)
    return no("both operands should be float32 matrices");
  for (const bool rows : {true, false}) {
    const std::string& diagonal = rows ? a : b;
    const auto proof = prove(g, diagonal, fact::diagonal);
    if (!proof) continue;
    if (is_never_finite(g, rows ? b : a)) return no("its other operand has no finite element");
    diagonal_proof out;
    out.scales_rows = rows;
    out.matrix = rows ? b : a;
    out.diagonal = diagonal;
    const tensor_type& type = g.type_of(diagonal);
    out.diagonal_stride = type.strides[0] + type.strides[1];
    if (const graph_step* made = definition_of(g, diagonal); made != nullptr) {
      out.diagonal = operand_of(g, *made, "self");
      out.diagonal_stride = g.type_of(out.diagonal).strides[0];
    }
    out.certificate = fmt::format(
        "step {} ({}) multiplies by a diagonal matrix: {}; assumes that {} is finite (the full product makes NaN of 0 "
        "times infinity)",
        s.number, s.op(), *proof, out.matrix);
    return out;
  }
  return no("no operand is known to be diagonal");
}

namespace {

struct constant_value {
  double base = 0;
  std::vector<int> chain;
  std::string why;
};

// A softmax over one element is 1, and its logarithm 0.
std::optional<double> softmax_of_one(const graph& g, const graph_step& s) {
  const auto& rows = s.record().traits.rows;
  const bool log = rows && rows->form == row_form::log_softmax;
  if (!log && (!rows || rows->form != row_form::softmax)) return std::nullopt;
  const tensor_type& type = g.type_of(operand_of(g, s, "self"));
  const auto dim = integer_argument(s, "dim");
  if (!dim || type.dim() == 0) return std::nullopt;
  if (type.shape[static_cast<std::size_t>(*dim < 0 ? *dim + type.dim() : *dim)] != 1) return std::nullopt;
  return log ? 0.0 : 1.0;
}

// Whether each element of the step's operands is finite, unless a number before it overflows.
bool reads_finite_numbers(const graph& g, const graph_step& s) {
  return std::ranges::all_of(s.operands(), [&](const auto& o) { return g.facts_of(o).finite == finiteness::kept; });
}

// The number that all elements of a value are.
std::optional<constant_value> constant_of(const graph& g, const std::string& name) {
  const std::string& value = g.resolve(name);
  const graph_step* s = definition_of(g, value);
  if (s == nullptr || s->result_types.size() != 1 || s->result_types[0].type != dtype::float32) return std::nullopt;
  const operator_traits& traits = s->record().traits;
  const auto operands = s->operands();
  const auto finite = [&](double base, std::string_view reason) {
    return constant_value{base, {}, fmt::format("step {} ({}) {}", s->number, s->op(), reason)};
  };
  if (const number_facts& facts = g.facts_of(value); facts.is_one_number() && !operands.empty())
    if (traits.clips || s->op() == "aten::minimum" || s->op() == "aten::maximum")
      return finite(facts.within.low, fmt::format("clamps what is never on the other side to {}", facts.within.low));
  if (reads_finite_numbers(g, *s)) {
    if (const auto one = softmax_of_one(g, *s)) return finite(*one, "is over one element");
    if (s->op() == "aten::sub.Tensor" && operand_of(g, *s, "self") == operand_of(g, *s, "other") &&
        number_argument(*s, "alpha").value_or(1) == 1)
      return finite(0, "subtracts a value from itself");
    if (s->op() == "aten::mul.Scalar" && number_argument(*s, "other") == 0.0) return finite(0, "multiplies by 0");
  }
  const bool one_by_one = s->record().kind == operator_kind::pointwise && traits.kernel && operands.size() == 1;
  if (!one_by_one || traits.partial) return std::nullopt;
  auto before = constant_of(g, operands.front());
  if (before) before->chain.push_back(s->number);
  return before;
}

}  // namespace

expected<constant_proof> prove_constant(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) is not known to be constant: {}", s.number, s.op(), why);
  };
  if (s.dropped || s.group >= 0 || s.is_replaced()) return no("it is dropped, in a group or replaced");
  if (s.text->results.size() != 1 || s.text->results[0].empty()) return no("it has several results, or none");
  const std::string& value = s.text->results[0];
  const auto found = constant_of(g, value);
  if (!found) return no("no rule says so");
  const auto& readers = g.readers(value);
  const bool needed = g.is_output(value) || std::ranges::any_of(readers, [&](int n) {
                        const auto& results = g.step_at(n).text->results;
                        return results.size() != 1 || !constant_of(g, results[0]);
                      });
  if (!needed) return no("only constant steps read it");
  constant_proof proof{found->base, found->chain, ""};
  proof.certificate = fmt::format(
      "step {} ({}) is the same number everywhere, whatever the inputs hold: {}; assumes that the inputs are finite "
      "and "
      "that no number before it overflows (no step before it divides by what may be 0, or has no value)",
      s.number, s.op(), found->why);
  return proof;
}

expected<linear_sum_proof> prove_linear_sum(const graph& g, const graph_step& s) {
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) is not a sum that can be pulled through a linear layer: {}",
                s.number, s.op(), why);
  };
  const bool mean = s.op() == "aten::mean.dim";
  if (s.op() != "aten::sum.dim_IntList" && !mean) return no("only aten::sum.dim_IntList and aten::mean.dim are");
  if (s.dropped || s.group >= 0) return no("it is dropped or in a group");
  linear_sum_proof out;
  const auto constant = [&](const std::string& value) {
    const auto& weights = g.origin().reference.text.weights;
    return std::any_of(weights.begin(), weights.end(), [&](const auto& w) { return w.name == value; });
  };
  std::string sum_of = operand_of(g, s, "self");
  const graph_step* layer = g.producer(sum_of);
  for (; layer != nullptr; layer = g.producer(sum_of)) {
    const bool subtracts = layer->op() == "aten::sub.Tensor";
    const std::string other = operand_of(g, *layer, "other");
    if ((!subtracts && layer->op() != "aten::add.Tensor") || layer->group >= 0 || !constant(other) ||
        number_argument(*layer, "alpha").value_or(1) != 1)
      break;
    const std::string before = operand_of(g, *layer, "self");
    const std::vector<int64_t> features = {g.type_of(sum_of).shape.back()};
    if (g.type_of(before) != g.type_of(sum_of) || g.type_of(other) != contiguous(dtype::float32, features)) break;
    if (g.is_output(sum_of) || g.readers(sum_of).size() != 1) return no("what it sums is read elsewhere too");
    out.added.push_back({other, subtracts});
    out.between.push_back(layer->number);
    sum_of = before;
  }
  if (layer == nullptr || layer->op() != "aten::linear" || layer->group >= 0)
    return no("its operand is not the result of aten::linear");
  const tensor_type& type = g.type_of(sum_of);
  const auto dims = integers_argument(s, "dim");
  if (!dims || dims->size() != 1 || (dims->front() != -1 && dims->front() != type.dim() - 1) || type.dim() < 2)
    return no("it does not reduce exactly the layer's features");
  if (type.type != dtype::float32 || s.result_types[0].type != dtype::float32) return no("it is not in float32");
  if (g.is_output(sum_of) || g.readers(sum_of).size() != 1) return no("the layer's result is read elsewhere too");
  out.linear = layer->number;
  out.values = operand_of(g, *layer, "input");
  out.weight = operand_of(g, *layer, "weight");
  out.bias = operand_of(g, *layer, "bias");
  if (!constant(out.weight) || (!out.bias.empty() && !constant(out.bias)))
    return no("the layer's parameters are not the task's weights");
  if (g.type_of(out.weight).dim() != 2) return no("the layer's weight is not a matrix");
  if (is_never_finite(g, out.values)) return no("the layer's input has no finite element");
  if (mean) out.factor = 1 / static_cast<double>(type.shape.back());
  std::string weights = out.weight;
  if (!out.bias.empty()) weights += ", " + out.bias;
  for (const auto& w : out.added)
    weights += ", " + w.name;
  out.certificate = fmt::format(
      "step {} ({}) sums the features of step {} (aten::linear){} alone, and sum_j (x . w_j + b_j) = x . (sum_j w_j) + "
      "sum_j b_j; {} {} of the task, so the sums are made once; assumes that {} is finite",
      s.number, s.op(), layer->number,
      out.between.empty()
          ? ""
          : fmt::format(" and what step {} adds", print_steps({out.between.rbegin(), out.between.rend()})),
      weights, weights.find(',') == std::string::npos ? "is a weight" : "are weights", out.values);
  return out;
}

namespace {

// Whether the last two dimensions become one, or groups of whole multiples of the last one. What a contiguous view
// shows of a contiguous tensor is in the same order.
bool merges_last_two(const tensor_type& from, const tensor_type& to) {
  if (!from.is_contiguous() || !to.is_contiguous() || from.numel() != to.numel() || from.numel() == 0) return false;
  const auto kept = from.shape.end() - 2;
  return to.dim() >= from.dim() - 1 && std::equal(from.shape.begin(), kept, to.shape.begin()) &&
         to.shape.back() % from.shape.back() == 0;
}

}  // namespace

expected<interleave_proof> prove_interleave(const graph& g, const graph_step& s) {
  const auto no = [&](std::string_view why) {
    return fail(errc::invalid_argument, "step {} ({}) does not interleave: {}", s.number, s.task_op(), why);
  };
  const auto merged = tensor_argument_name(s, "self");
  if (s.dropped || s.is_replaced() || s.group >= 0 || s.record().kind != operator_kind::view || !merged)
    return no("it is no view of a library's result");
  const graph_step* stack = g.producer(g.resolve(*merged));
  if (stack == nullptr || stack->op() != "aten::stack" || stack->group >= 0) return no("it is no view of a stack");
  const tensor_type& stacked = stack->result_types[0];
  const auto* tensors = std::get_if<std::vector<tensor_argument>>(stack->argument("tensors"));
  const int64_t dim = integer_argument(*stack, "dim").value_or(0);
  if (tensors == nullptr || stacked.dim() < 2 || (dim != -1 && dim != stacked.dim() - 1))
    return no("the stack is not along the last dimension");
  if (!merges_last_two(stacked, s.result_types[0]))
    return no("it does not merge the last two dimensions, or into groups that are no multiples of the parts' number");
  const std::string& value = stack->text->results[0];
  if (g.is_output(value) || g.readers(value) != std::vector<int>{s.number}) return no("the stack is read elsewhere");
  interleave_proof proof;
  for (const auto& t : *tensors)
    proof.parts.push_back(g.resolve(t.name));
  proof.stack = stack->number;
  proof.certificate = fmt::format("step {}: element {}i + p, in the order of the elements, is element i of part p",
                                  s.number, proof.parts.size());
  return proof;
}

}  // namespace cudal1
