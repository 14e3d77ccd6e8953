#include "sandbox/program/operators/work.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

using namespace work_parts;

namespace {

double ratio(int64_t a, int64_t b) {
  return b > 0 ? std::min(1.0, static_cast<double>(a) / static_cast<double>(b)) : 0.0;
}

enum class triangle { upper, lower };

// The share of a matrix's elements on the diagonal `offset` and above or below it.
double triangle_share(const tensor_type& type, triangle which, int64_t offset) {
  const auto rank = type.shape.size();
  if (rank < 2) return 1;
  const int64_t rows = type.shape[rank - 2], columns = type.shape[rank - 1];
  int64_t open = 0;
  for (int64_t r = 0; r < rows; ++r)
    open += which == triangle::upper ? columns - std::clamp(r + offset, int64_t{0}, columns)
                                     : std::clamp(r + offset + 1, int64_t{0}, columns);
  return ratio(open, rows * columns);
}

// The share of the operand `name` that a step reads, where `share` of its result is read.
double share_of_operand(const operator_call& call, const tensor_type& result, const std::string& name,
                        const tensor_type& type, double share) {
  if (share <= 0) return 0;
  const auto* first = call.arguments.empty() ? nullptr : std::get_if<tensor_argument>(&call.arguments.front());
  const bool is_first = first != nullptr && first->name == name;
  const auto reads = traits_of(call).reads;
  if (reads == reading::shape_only) return 0;
  if (reads == reading::values_of_first_only) return is_first ? 1 : 0;
  const double like_result = result.numel() == type.numel() && is_elementwise(record_of(call)) ? share : 1;
  if (!is_first) return like_result;
  switch (reads) {
    case reading::part:
      return share * ratio(result.numel(), type.numel());
    case reading::diagonal:
      return ratio(*std::min_element(type.shape.begin(), type.shape.end()), type.numel());
    case reading::upper_triangle:
      return std::min(share, triangle_share(type, triangle::upper, integer_of(call, "diagonal", 0)));
    case reading::lower_triangle:
      return std::min(share, triangle_share(type, triangle::lower, integer_of(call, "diagonal", 0)));
    case reading::one_per_row:
      if (const auto* target = tensor_of(call, "target")) return ratio(target->numel(), type.numel());
      break;
    default:
      break;
  }
  const auto windows = windows_of(call, result);
  return !windows.empty() && !is_transposed(call) ? touched_share(windows) : like_result;
}

// For a list of parts of one tensor: adds up what is read of each part.
void read_parts(const checked_program& p, std::size_t step, std::map<std::string, double>& read) {
  const auto& s = std::get<aten_step>(p.text.steps[step]);
  const auto whole = operands_of(p.calls[step]).front();
  double elements = 0;
  for (std::size_t r = 0; r < s.results.size(); ++r)
    if (const auto found = read.find(s.results[r]); found != read.end())
      elements += found->second * static_cast<double>(p.results[step][r].type.numel());
  auto& share = read[whole];
  share = std::min(1.0, share + elements / static_cast<double>(p.types.at(whole).numel()));
}

// For each value the share of its elements that is read, computed back from the outputs. Shares of several readers add
// up.
std::map<std::string, double> read_shares(const checked_program& p) {
  std::map<std::string, double> read;
  for (const auto& output : p.text.outputs)
    read[output] = 1;
  for (std::size_t i = p.text.steps.size(); i-- > 0;) {
    const auto* s = std::get_if<aten_step>(&p.text.steps[i]);
    if (s == nullptr) continue;
    if (p.calls[i].op->schema.list_result) {
      read_parts(p, i, read);
      continue;
    }
    double share = 0;
    const tensor_type* result = nullptr;
    for (std::size_t r = 0; r < s->results.size(); ++r)
      if (const auto found = read.find(s->results[r]); found != read.end() && found->second > share) {
        share = found->second;
        result = &p.results[i][r].type;
      }
    if (result == nullptr) continue;
    for (const auto& name : operands_of(p.calls[i])) {
      auto& sum = read[name];
      sum = std::min(1.0, sum + share_of_operand(p.calls[i], *result, name, p.types.at(name), share));
    }
  }
  return read;
}

int64_t bytes_of(const tensor_type& type, double share) {
  return static_cast<int64_t>(std::llround(static_cast<double>(type.storage_bytes()) * share));
}

// Outputs own their memory (check.cpp); views of the same memory count once.
int64_t written_bytes(const checked_program& p) {
  std::map<std::string, int64_t> memory;
  for (const auto& name : p.text.outputs) {
    const auto base = p.view_of.find(name);
    auto& bytes = memory[base == p.view_of.end() ? name : base->second];
    bytes = std::max(bytes, p.types.at(name).storage_bytes());
  }
  int64_t sum = 0;
  for (const auto& [owner, bytes] : memory)
    sum += bytes;
  return sum;
}

// Weights that only avoidable products read: a setup step may have folded them.
std::set<std::string> foldable_weights(const checked_program& p, const std::set<std::size_t>& avoidable) {
  std::set<std::string> foldable, needed;
  for (std::size_t i = 0; i < p.calls.size(); ++i)
    for (const auto& name : operands_of(p.calls[i]))
      (avoidable.contains(i) ? foldable : needed).insert(name);
  for (const auto& name : needed)
    foldable.erase(name);
  return foldable;
}

double share_in(const std::map<std::string, double>& shares, const std::string& name) {
  const auto found = shares.find(name);
  return found == shares.end() ? 0 : found->second;
}

}  // namespace

double open_share(const tensor_type& type, const std::vector<fact>& facts) {
  const auto has = [&](fact f) { return std::find(facts.begin(), facts.end(), f) != facts.end(); };
  const auto rank = type.shape.size();
  const bool upper = has(fact::upper_triangular), lower = has(fact::lower_triangular), mirrored = has(fact::symmetric);
  if (rank >= 2 && (has(fact::diagonal) || (upper && lower) || ((upper || lower) && mirrored))) {
    const int64_t rows = type.shape[rank - 2], columns = type.shape[rank - 1];
    return ratio(std::min(rows, columns), rows * columns);
  }
  if (has(fact::one_hot)) return 0.5;
  if (upper || lower || mirrored) return triangle_share(type, lower ? triangle::lower : triangle::upper, 0);
  return 1;
}

int64_t task_work::least_bytes(int64_t cache_bytes) const {
  return least_input_bytes + std::max<int64_t>(0, least_output_bytes - cache_bytes);
}

task_work work_of(const task& t) {
  const checked_program& p = t.reference;
  const auto read = read_shares(p);
  const auto avoidable = avoidable_products(p);
  const auto foldable = foldable_weights(p, avoidable);
  const auto needed = needed_inputs(t);
  task_work w;
  for (std::size_t i = 0; i < p.text.inputs.size(); ++i) {
    const auto& d = p.text.inputs[i];
    const double open = open_share(d.type, t.inputs[i].facts);
    w.input_bytes += bytes_of(d.type, std::min(open, share_in(read, d.name)));
    // The position of the 1 in a row is random, so there is no bound for one_hot inputs.
    if (!t.has_fact(d.name, fact::one_hot)) w.least_input_bytes += bytes_of(d.type, open * share_in(needed, d.name));
  }
  for (const auto& d : p.text.weights)
    if (!foldable.contains(d.name)) w.weight_bytes += bytes_of(d.type, share_in(read, d.name));
  w.output_bytes = w.least_output_bytes = written_bytes(p);
  w.flops = flops_of(t, read, avoidable);
  return w;
}

}  // namespace cudal1
