#include "policy/graph/strided_readers.hpp"

#include <algorithm>

#include "policy/graph/step_arguments.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/strides.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

using work_parts::tensor_of;

// Libraries take rows and matrices at any distance, but one distance only: that of all rows, or of all matrices.
bool is_evenly_spaced(const tensor_type& t, std::size_t kept) {
  std::vector<int64_t> shape = {1};
  for (std::size_t d = 0; d < t.shape.size(); ++d) {
    if (d + kept < t.shape.size())
      shape.front() *= t.shape[d];
    else
      shape.push_back(t.shape[d]);
  }
  return rules::view_strides(t, shape).has_value();
}

// Why the library would copy this operand of a product, or go over its result once more; "" where it does not.
std::string why_slow(const operator_call& call, const std::string& value, const tensor_type& now) {
  if (now.dim() <= 2) return "";
  const std::string_view op = call.op->record->name();
  if (op == "aten::linear" && tensor_of(call, "bias") != nullptr)
    return "the library would add the bias in another pass";
  const tensor_type *left = tensor_of(call, "self"), *right = tensor_of(call, "other");
  const bool of_matrix = op == "aten::linear" || (op == "aten::matmul" && (left->dim() == 2 || right->dim() == 2));
  const bool of_batch = op == "aten::matmul" && now.dim() > 3;
  if ((of_matrix && !is_evenly_spaced(now, 1)) || (of_batch && !of_matrix && !is_evenly_spaced(now, 2)))
    return "the library would copy " + value;
  return "";
}

// Operators whose kernels, those of libraries or our own, read an operand of any strides where it lies.
bool takes_any_strides(operator_kind kind) {
  switch (kind) {
    case operator_kind::convolution:
    case operator_kind::pool:
    case operator_kind::recurrent:
    case operator_kind::resampling:
    case operator_kind::sort:
      return false;
    default:
      return true;
  }
}

}  // namespace

strided_readers::strided_readers(const checked_program& p) : p_(&p) {
  for (std::size_t i = 0; i < p.calls.size(); ++i)
    for (const auto& value : work_parts::operands_of(p.calls[i]))
      readers_[value].insert(static_cast<int>(i));
}

bool strided_readers::is_output(const std::string& value) const {
  return std::ranges::count(p_->text.outputs, value) > 0;
}

expected<void> strided_readers::check(const std::string& value, const tensor_type& now) const {
  if (is_output(value)) return fail(errc::invalid_argument, "{} is an output", value);
  if (!readers_.contains(value)) return fail(errc::invalid_argument, "nothing reads {}", value);
  changed_types changed{{value, now}};
  std::set<int> left = readers_.at(value);
  while (!left.empty()) {
    const int step = left.extract(left.begin()).value();  // after all that make its operands
    CUDAL1_TRY(auto made, results_of(step, changed));
    for (const auto& [result, type] : made) {
      if (is_output(result))
        return fail(errc::invalid_argument, "step {} ({}) would make the output {} with other strides", step,
                    step_of(*p_, step).op, result);
      if (const auto known = readers_.find(result); known != readers_.end())
        left.insert(known->second.begin(), known->second.end());
    }
    changed.merge(made);
  }
  return {};
}

// The results of the step that have other types from then on.
expected<strided_readers::changed_types> strided_readers::results_of(int step, const changed_types& changed) const {
  const auto at = static_cast<std::size_t>(step);
  const aten_step& s = step_of(*p_, step);
  const auto no = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) cannot read it in place: {}", step, s.op, why);
  };
  const auto call = bind_arguments(*find_operator(s.op), s.args, [&](const std::string& name) {
    const auto found = changed.find(name);
    return found != changed.end() ? &found->second : &p_->types.at(name);
  });
  if (!call) return no(call.error().message);
  CUDAL1_CHECK(check_operands(step, *call, changed));
  const auto results = call->op->rule(*call);
  if (!results) return no(results.error().message);
  changed_types out;
  for (std::size_t r = 0; r < s.results.size(); ++r) {
    if (s.results[r].empty()) continue;
    const operator_result& before = p_->results[at][r];
    if (before.view_of && !(*results)[r].view_of) return no("it would be a copy");
    if ((*results)[r].type != before.type) out.emplace(s.results[r], (*results)[r].type);
  }
  return out;
}

// What was not contiguous before is read as it was.
expected<void> strided_readers::check_operands(int step, const operator_call& call,
                                               const changed_types& changed) const {
  for (const auto& value : work_parts::operands_of(call)) {
    const auto now = changed.find(value);
    if (now == changed.end() || now->second.is_contiguous() || !p_->types.at(value).is_contiguous()) continue;
    std::string why;
    if (!takes_any_strides(call.op->record->kind))
      why = "the library would copy " + value;
    else if (call.op->record->kind == operator_kind::product)
      why = why_slow(call, value, now->second);
    if (!why.empty())
      return fail(errc::invalid_argument, "step {} ({}) cannot read it in place: {}", step, step_of(*p_, step).op, why);
  }
  return {};
}

}  // namespace cudal1
