// FLOPs of matrix products, attention and convolutions, and which of them algebra avoids.
#include <algorithm>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1::work_parts {

namespace {

// ---- avoidable products -------------------------------------------------------------------------------------------

// Steps whose result is linear in any one operand, element by element or by moving elements.
bool is_linear_step(const aten_step& s, const operator_call& call, const std::string& operand) {
  const auto op = base_name(s);
  if (is_one_of(op, {"add",       "sub",     "rsub",    "subtract",   "neg",       "negative",  "mul",
                     "multiply",  "view",    "reshape", "permute",    "transpose", "swapaxes",  "t",
                     "mT",        "numpy_T", "movedim", "expand",     "squeeze",   "unsqueeze", "flatten",
                     "unflatten", "alias",   "detach",  "contiguous", "clone",     "dropout",   "to"}))
    return std::count_if(call.arguments.begin(), call.arguments.end(), [&](const argument_value& a) {
             const auto* t = std::get_if<tensor_argument>(&a);
             return t != nullptr && t->name == operand;
           }) == 1;
  const auto* first = call.arguments.empty() ? nullptr : std::get_if<tensor_argument>(&call.arguments.front());
  return is_one_of(op, {"div", "divide", "true_divide"}) && first != nullptr && first->name == operand;
}

bool sums_up(const aten_step& s) {
  const auto op = base_name(s);
  return is_one_of(op, {"sum", "mean"}) || op.starts_with("avg_pool") || op.starts_with("adaptive_avg_pool");
}

// Follows a product's result through linear steps.
struct follower {
  const checked_program& p;
  std::set<std::size_t>& products_met;

  // Whether everything that becomes of `value` is sums and other products.
  bool only_summed(const std::string& value) const {
    if (std::find(p.text.outputs.begin(), p.text.outputs.end(), value) != p.text.outputs.end()) return false;
    bool used = false;
    for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
      const auto names = operands_of(p.calls[i]);
      if (std::find(names.begin(), names.end(), value) == names.end()) continue;
      const auto& s = std::get<aten_step>(p.text.steps[i]);
      used = true;
      if (sums_up(s)) continue;
      const bool attention = base_name(s) == "scaled_dot_product_attention";
      if (!attention && (is_product(s) || is_convolution(s) || is_contraction(s))) {
        products_met.insert(i);
        continue;
      }
      if (!is_linear_step(s, p.calls[i], value) || s.results.empty() || !only_summed(s.results.front())) return false;
    }
    return used;
  }
};

// ---- structure ------------------------------------------------------------------------------------------------------

enum class structure { dense, upper, lower, diagonal, one_hot };

structure transposed(structure s) {
  if (s == structure::upper) return structure::lower;
  if (s == structure::lower) return structure::upper;
  return s == structure::one_hot ? structure::dense : s;
}

structure structure_of_facts(const std::vector<fact>& facts) {
  const auto has = [&](fact f) { return std::find(facts.begin(), facts.end(), f) != facts.end(); };
  const bool upper = has(fact::upper_triangular), lower = has(fact::lower_triangular);
  if (has(fact::diagonal) || (upper && lower) || ((upper || lower) && has(fact::symmetric))) return structure::diagonal;
  if (has(fact::one_hot)) return structure::one_hot;
  return upper ? structure::upper : lower ? structure::lower : structure::dense;
}

bool swaps_last_two(const aten_step& s, const operator_call& call, const tensor_type& result) {
  const auto op = base_name(s);
  if (is_one_of(op, {"t", "mT", "numpy_T"})) return result.dim() == 2 || op == "mT";
  if (!is_one_of(op, {"transpose", "swapaxes"})) return false;
  const char* names[] = {"dim0", "dim1"};
  const char* axes[] = {"axis0", "axis1"};
  const auto& keys = op == "transpose" ? names : axes;
  const int64_t n = result.dim();
  const int64_t a = (integer_of(call, keys[0], 0) + n) % n, b = (integer_of(call, keys[1], 0) + n) % n;
  return std::min(a, b) == n - 2 && std::max(a, b) == n - 1;
}

// Of every value with zeros that are known.
std::map<std::string, structure> structures_of(const task& t) {
  const checked_program& p = t.reference;
  std::map<std::string, structure> known;
  const auto of = [&](const std::string& name) {
    const auto found = known.find(name);
    return found == known.end() ? structure::dense : found->second;
  };
  for (std::size_t i = 0; i < p.text.inputs.size(); ++i)
    known[p.text.inputs[i].name] = structure_of_facts(t.inputs[i].facts);
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    const auto* s = std::get_if<aten_step>(&p.text.steps[i]);
    const auto names = operands_of(p.calls[i]);
    if (s == nullptr || names.size() != 1 || p.results[i].size() != 1) continue;
    const auto op = base_name(*s);
    const auto before = of(names.front());
    auto& after = known[s->results.front()];
    if (swaps_last_two(*s, p.calls[i], p.results[i].front().type))
      after = transposed(before);
    else if (is_one_of(op, {"contiguous", "clone", "to", "alias", "detach", "neg", "mul", "div"}))
      after = before;
    else if (is_one_of(op, {"tril", "triu"}) && integer_of(p.calls[i], "diagonal", 0) == 0)
      after = before == structure::diagonal ? before : op == "triu" ? structure::upper : structure::lower;
  }
  return known;
}

// ---- FLOPs ----------------------------------------------------------------------------------------------------------

// Of the left operand's column `k` (of `rows` elements), those that may differ from 0; of one_hot, on average.
double open_in_column(structure s, double rows, double inner, double k) {
  switch (s) {
    case structure::upper:
      return std::min(k + 1, rows);
    case structure::lower:
      return std::max(0.0, rows - k);
    case structure::diagonal:
      return k < rows ? 1 : 0;
    case structure::one_hot:
      return rows / inner;
    case structure::dense:
      break;
  }
  return rows;
}

// Of the right operand's row `k`, of `columns` elements. A column of its transpose, but for one_hot.
double open_in_row(structure s, double columns, double k) {
  if (s == structure::one_hot) return 1;
  return open_in_column(transposed(s), columns, 1, k);
}

// Pairs of elements that a product of rows x inner and inner x columns multiplies.
double multiplications(structure left, structure right, int64_t rows, int64_t inner, int64_t columns) {
  const auto m = static_cast<double>(rows), k = static_cast<double>(inner), n = static_cast<double>(columns);
  if (left == structure::dense && right == structure::dense) return m * k * n;
  double sum = 0;
  for (double i = 0; i < k; ++i)
    sum += open_in_column(left, m, k, i) * open_in_row(right, n, i);
  return sum;
}

struct operand {
  std::string name;
  const tensor_type* type = nullptr;
};

operand operand_of(const operator_call& call, std::string_view name) {
  const auto* found = argument<tensor_argument>(call, name);
  return found == nullptr ? operand{} : operand{found->name, &found->type};
}

// Query x key and weights x value; a causal mask leaves the pairs up to the diagonal.
double attention_flops(const operator_call& call) {
  const auto* q = tensor_of(call, "query");
  const auto* k = tensor_of(call, "key");
  const auto* v = tensor_of(call, "value");
  if (q == nullptr || k == nullptr || v == nullptr || q->dim() < 2 || q->numel() == 0) return 0;
  const int64_t queries = q->shape[q->shape.size() - 2], keys = k->shape[k->shape.size() - 2];
  const auto* flag = argument<scalar_value>(call, "is_causal");
  const bool causal = flag != nullptr && std::holds_alternative<bool>(*flag) && std::get<bool>(*flag);
  double pairs = static_cast<double>(queries) * static_cast<double>(keys);
  if (causal) {
    pairs = 0;
    for (int64_t i = 0; i < queries; ++i)
      pairs += static_cast<double>(std::min(i + 1, keys));
  }
  const auto batch = static_cast<double>(q->numel()) / static_cast<double>(queries * q->shape.back());
  return 2 * batch * pairs * static_cast<double>(q->shape.back() + v->shape.back());
}

// Every pair of an input element and a tap that lies inside, for each pair of channels of one group.
double convolution_flops(const aten_step& s, const operator_call& call, const tensor_type& result) {
  const auto* input = tensor_of(call, "input");
  const auto* weight = tensor_of(call, "weight");
  if (input == nullptr || weight == nullptr || weight->dim() < 3) return 0;
  const auto spatial = weight->shape.size() - 2;
  const bool batched = input->shape.size() == spatial + 2;
  // The weight is (out, in / groups, ...), or (in, out / groups, ...) where transposed: with the batch, all pairs.
  auto flops = 2.0 * static_cast<double>(weight->shape[0]) * static_cast<double>(weight->shape[1]);
  if (batched) flops *= static_cast<double>(input->shape[0]);
  for (const auto& w : windows_of(s, call, result))
    flops *= static_cast<double>(w.pairs());
  return flops;
}

double product_flops(const aten_step& s, const operator_call& call, const tensor_type& result,
                     const std::map<std::string, structure>& known, double share) {
  const auto op = base_name(s);
  if (op == "scaled_dot_product_attention") return attention_flops(call) * share;
  const bool linear = op == "linear";
  const operand left = operand_of(call, linear            ? "input"
                                        : op == "addmm"   ? "mat1"
                                        : op == "baddbmm" ? "batch1"
                                                          : "self");
  const operand right = operand_of(call, linear                                ? "weight"
                                         : is_one_of(op, {"mm", "bmm"})        ? "mat2"
                                         : is_one_of(op, {"addmm", "baddbmm"}) ? (op == "addmm" ? "mat2" : "batch2")
                                                                               : "other");
  if (left.type == nullptr || right.type == nullptr || left.type->dim() < 1 || right.type->dim() < 1) return 0;
  const auto of = [&](const std::string& name) {
    const auto found = known.find(name);
    return found == known.end() ? structure::dense : found->second;
  };
  const int64_t inner = left.type->shape.back();
  const int64_t rows = left.type->dim() < 2 ? 1 : left.type->shape[left.type->shape.size() - 2];
  const int64_t columns = right.type->dim() < 2 ? 1 : linear ? right.type->shape.front() : right.type->shape.back();
  if (rows == 0 || columns == 0) return 0;
  const structure a = of(left.name), b = linear ? transposed(of(right.name)) : of(right.name);
  const auto batch = static_cast<double>(result.numel()) / static_cast<double>(rows * columns);
  const double flops = 2 * batch * multiplications(a, b, rows, inner, columns);
  // A mask over the product of structured operands hides nothing but their zeros.
  return a == structure::dense && b == structure::dense ? flops * share : flops;
}

// The last steps of a recurrent layer need the first: whoever reads anything of it needs all.
double share_of_any(const aten_step& s, const std::map<std::string, double>& read_share) {
  const bool is_read = std::any_of(s.results.begin(), s.results.end(), [&](const std::string& name) {
    const auto found = read_share.find(name);
    return found != read_share.end() && found->second > 0;
  });
  return is_read ? 1 : 0;
}

double* unit_of(task_flops& flops, const aten_step& s, dtype type) {
  const bool convolution = is_convolution(s);
  if (type == dtype::float64) return &flops.float64;
  if (type == dtype::float16 || type == dtype::bfloat16) return &flops.half;
  if (type != dtype::float32) return nullptr;
  return (convolution ? s.precision != "float32" : s.precision == "tf32") ? &flops.tf32 : &flops.float32;
}

}  // namespace

std::set<std::size_t> avoidable_products(const checked_program& p) {
  std::set<std::size_t> avoidable;
  if (!p.is_pure_aten()) return avoidable;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    const auto& s = std::get<aten_step>(p.text.steps[i]);
    const bool attention = base_name(s) == "scaled_dot_product_attention";
    if (attention || !(is_product(s) || is_convolution(s) || is_contraction(s)) || s.results.empty()) continue;
    std::set<std::size_t> met;
    if (!follower{p, met}.only_summed(s.results.front())) continue;
    avoidable.insert(i);
    avoidable.insert(met.begin(), met.end());
  }
  return avoidable;
}

task_flops flops_of(const task& t, const std::map<std::string, double>& read_share,
                    const std::set<std::size_t>& avoidable) {
  const checked_program& p = t.reference;
  const auto known = structures_of(t);
  task_flops flops;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    const auto* s = std::get_if<aten_step>(&p.text.steps[i]);
    if (s == nullptr || avoidable.contains(i) || p.results[i].empty()) continue;
    const auto read = read_share.find(s->results.front());
    double share = read == read_share.end() ? 0 : read->second;
    if (is_recurrent(*s)) share = share_of_any(*s, read_share);
    const auto& result = p.results[i].front().type;
    double* unit = unit_of(flops, *s, result.type);
    if (unit == nullptr || share <= 0) continue;
    if (is_convolution(*s)) *unit += convolution_flops(*s, p.calls[i], result) * share;
    if (is_product(*s)) *unit += product_flops(*s, p.calls[i], result, known, share);
    if (is_contraction(*s)) *unit += contraction_flops(*s, p.calls[i], result) * share;
    if (is_recurrent(*s)) *unit += recurrent_flops(p.calls[i]);
  }
  return flops;
}

}  // namespace cudal1::work_parts
