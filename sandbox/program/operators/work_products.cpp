// FLOPs of matrix products, attention and convolutions, and which of them algebra can avoid.
#include <algorithm>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1::work_parts {

namespace {

// ---- avoidable products -------------------------------------------------------------------------------------------

// Whether the step scales the operand's elements by as many others, which no weight can take in.
bool scales_each_element(const operator_call& call, const std::string& operand) {
  if (!traits_of(call).keeps_zeros) return false;
  int64_t elements = 0, others = 0;
  for (const auto& a : call.arguments)
    if (const auto* t = std::get_if<tensor_argument>(&a)) {
      int64_t& count = t->name == operand ? elements : others;
      count = std::max(count, t->type.numel());
    }
  return others > 1 && others >= elements;
}

// Whether the step's result is linear in the operand, elementwise or by moving elements, so that a linear step after it
// may be done before.
bool is_linear_step(const operator_call& call, const std::string& operand) {
  if (scales_each_element(call, operand)) return false;
  const auto is_operand = [&](const argument_value& a) {
    const auto* t = std::get_if<tensor_argument>(&a);
    return t != nullptr && t->name == operand;
  };
  switch (traits_of(call).linear) {
    case linearity::each_operand:
      return std::count_if(call.arguments.begin(), call.arguments.end(), is_operand) == 1;
    case linearity::first_operand:
      return !call.arguments.empty() && is_operand(call.arguments.front());
    case linearity::none:
      break;
  }
  return false;
}

bool has_flops(const operator_record& r) {
  return r.traits.flops != nullptr || r.traits.product.left[0] != 0;
}

// A product whose result is linear in each of its factors.
bool is_bilinear(const operator_record& r) {
  return has_flops(r) && r.kind != operator_kind::attention && r.kind != operator_kind::recurrent;
}

// Follows a product's result through linear steps.
struct follower {
  const checked_program& p;
  std::set<std::size_t>& products_met;

  // Whether `value` is used, through linear steps, in sums and other products only.
  bool only_summed(const std::string& value) const {
    if (std::find(p.text.outputs.begin(), p.text.outputs.end(), value) != p.text.outputs.end()) return false;
    bool used = false;
    for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
      const auto names = operands_of(p.calls[i]);
      if (std::find(names.begin(), names.end(), value) == names.end()) continue;
      const auto& s = std::get<aten_step>(p.text.steps[i]);
      used = true;
      if (traits_of(p.calls[i]).sums) continue;
      if (is_bilinear(record_of(p.calls[i]))) {
        products_met.insert(i);
        continue;
      }
      if (!is_linear_step(p.calls[i], value) || s.results.empty() || !only_summed(s.results.front())) return false;
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

bool swaps_last_two(const operator_call& call, const tensor_type& result) {
  const int64_t n = result.dim();
  const auto dim = [&](std::size_t argument) {
    return (std::get<int64_t>(std::get<scalar_value>(call.arguments[argument])) + n) % n;
  };
  switch (traits_of(call).swaps) {
    case transposition::last_two:
      return true;
    case transposition::of_matrix:
      return n == 2;
    case transposition::named:
      return std::min(dim(1), dim(2)) == n - 2 && std::max(dim(1), dim(2)) == n - 1;
    case transposition::none:
      break;
  }
  return false;
}

// The structure of every value with known zeros.
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
    const auto& traits = traits_of(p.calls[i]);
    const bool upper = traits.reads == reading::upper_triangle, lower = traits.reads == reading::lower_triangle;
    const auto before = of(names.front());
    auto& after = known[s->results.front()];
    if (swaps_last_two(p.calls[i], p.results[i].front().type))
      after = transposed(before);
    else if (traits.keeps_zeros)
      after = before;
    else if ((upper || lower) && integer_of(p.calls[i], "diagonal", 0) == 0)
      after = before == structure::diagonal ? before : upper ? structure::upper : structure::lower;
  }
  return known;
}

// ---- FLOPs ----------------------------------------------------------------------------------------------------------

// The number of elements in the left operand's column `k` (of `rows`) that may differ from 0; for one_hot, on average.
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

// What open_in_column() counts, for the right operand's row `k` (of `columns` elements): a column of its transpose,
// except for one_hot.
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

double product_flops(const operator_call& call, const tensor_type& result,
                     const std::map<std::string, structure>& known, double share) {
  const auto& factors = traits_of(call).product;
  const bool linear = factors.right_is_transposed;
  const operand left = operand_of(call, factors.left), right = operand_of(call, factors.right);
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
  // A mask over the product of structured operands only hides their zeros.
  return a == structure::dense && b == structure::dense ? flops * share : flops;
}

// The last steps of a recurrent layer depend on the first: reading anything of it needs all of it.
double share_of_any(const aten_step& s, const std::map<std::string, double>& read_share) {
  const bool is_read = std::any_of(s.results.begin(), s.results.end(), [&](const std::string& name) {
    const auto found = read_share.find(name);
    return found != read_share.end() && found->second > 0;
  });
  return is_read ? 1 : 0;
}

double* unit_of(task_flops& flops, const aten_step& s, const operator_call& call, dtype type) {
  const bool convolution = record_of(call).kind == operator_kind::convolution;
  if (type == dtype::float64) return &flops.float64;
  if (type == dtype::float16 || type == dtype::bfloat16) return &flops.half;
  if (type != dtype::float32) return nullptr;
  return (convolution ? s.precision != "float32" : s.precision == "tf32") ? &flops.tf32 : &flops.float32;
}

}  // namespace

task_flops flops_of_step(const aten_step& s, const operator_call& call, const tensor_type& result) {
  task_flops out;
  const auto& record = record_of(call);
  if (double* unit = unit_of(out, s, call, result.type); unit != nullptr && has_flops(record))
    *unit = record.traits.flops == nullptr ? product_flops(call, result, {}, 1) : record.traits.flops(call, result);
  return out;
}

std::set<std::size_t> avoidable_products(const checked_program& p) {
  std::set<std::size_t> avoidable;
  if (!p.is_pure_aten()) return avoidable;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    const auto& s = std::get<aten_step>(p.text.steps[i]);
    if (!is_bilinear(record_of(p.calls[i])) || s.results.empty()) continue;
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
    const auto& call = p.calls[i];
    const auto& record = record_of(call);
    const bool recurrent = record.kind == operator_kind::recurrent;
    if (recurrent) share = share_of_any(*s, read_share);
    const auto& result = p.results[i].front().type;
    double* unit = unit_of(flops, *s, call, result.type);
    if (unit == nullptr || share <= 0 || !has_flops(record)) continue;
    *unit += record.traits.flops == nullptr ? product_flops(call, result, known, share)
                                            : record.traits.flops(call, result) * share;
  }
  return flops;
}

}  // namespace cudal1::work_parts
