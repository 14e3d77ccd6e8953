#include "sandbox/program/operators/constant_result.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/program/operators/number_facts.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

using namespace work_parts;

namespace {

std::optional<double> number_of(const operator_call& call, std::string_view name) {
  const auto* value = argument<scalar_value>(call, name);
  if (value == nullptr) return std::nullopt;
  return std::visit([](auto x) { return static_cast<double>(x); }, *value);
}

bool boolean_of(const operator_call& call, std::string_view name) {
  const auto* value = argument<scalar_value>(call, name);
  return value != nullptr && std::holds_alternative<bool>(*value) && std::get<bool>(*value);
}

// A view of all elements in their order.
bool is_reshaped(const operator_record& r) {
  return r.kind == operator_kind::view && r.traits.swaps == transposition::none && !r.traits.moves_start_address &&
         (r.name().starts_with("aten::view") || r.name().starts_with("aten::reshape") ||
          r.name().starts_with("aten::squeeze") || r.name().starts_with("aten::unsqueeze") ||
          r.name().starts_with("aten::flatten") || r.name().starts_with("aten::unflatten") ||
          r.name().starts_with("aten::alias") || r.name().starts_with("aten::detach"));
}

// Whether the operator leaves what lies in these bounds unchanged.
bool keeps_range(const operator_call& call, const bounds& within) {
  const operator_traits& traits = traits_of(call);
  if (traits.identity && number_of(call, "scale").value_or(1) == 1)
    return within.low >= traits.identity->low && within.high <= traits.identity->high;
  if (!traits.clips) return false;
  const auto limit = [&](std::string_view name, double otherwise) -> std::optional<double> {
    const auto& declared = call.op->schema.arguments;
    for (std::size_t i = 0; i < declared.size(); ++i)
      if (declared[i].name == name && call.arguments[i].index() != 0) return number_of(call, name);
    return otherwise;
  };
  const auto low = limit(traits.clips->low_argument, traits.clips->limits.low);
  const auto high = limit(traits.clips->high_argument, traits.clips->limits.high);
  return low && high && within.low >= *low && within.high <= *high;
}

// An operator that takes the first operand's elements as they are, in their order.
bool keeps_elements(const operator_call& call, const tensor_type& operand, const tensor_type& result,
                    const bounds& within) {
  const operator_record& r = record_of(call);
  if (operand.numel() != result.numel() || operand.type != result.type) return false;
  // Every element is reduced alone.
  if (r.traits.is_noop_on_size_one || is_reshaped(r)) return true;
  if (operand.shape != result.shape) return false;
  if (r.traits.idle[0] != 0 && !boolean_of(call, "train")) return true;
  if (r.kind == operator_kind::copy) return r.traits.kernel && r.traits.kernel->form == kernel_form::identity;
  const neutral_number& neutral = r.traits.neutral;
  return (neutral.argument[0] != 0 && number_of(call, neutral.argument) == neutral.value) || keeps_range(call, within);
}

// Over rows of one element.
bool has_single_rows(const operator_call& call, const tensor_type& operand) {
  const auto& rows = record_of(call).traits.rows;
  if (!rows || operand.dim() == 0) return false;
  switch (rows->form) {
    case row_form::softmax:
    case row_form::log_softmax: {
      const int64_t dim = integer_of(call, "dim", -1), n = operand.dim();
      return operand.shape[static_cast<std::size_t>((dim % n + n) % n)] == 1;
    }
    default:
      return false;
  }
}

bool subtracts_itself(const operator_call& call, const std::vector<std::string>& operands, const value_relations& known,
                      const checked_program& p) {
  return record_of(call).name() == "aten::sub.Tensor" && operands.size() == 2 &&
         number_of(call, "alpha").value_or(1) == 1 && known.origin_of(operands[0]) == known.origin_of(operands[1]) &&
         p.types.at(operands[0]).shape == p.types.at(operands[1]).shape;
}

bool is_clamp_without_room(const operator_call& call) {
  const auto& clips = record_of(call).traits.clips;
  if (!clips) return false;
  return !(number_of(call, clips->low_argument).value_or(clips->limits.low) <
           number_of(call, clips->high_argument).value_or(clips->limits.high));
}

// Whether the step's result is one number, whatever its operands hold, which are finite.
bool is_one_number(const operator_call& call, const std::vector<std::string>& operands, const value_relations& known,
                   const checked_program& p) {
  return has_single_rows(call, p.types.at(operands.front())) || subtracts_itself(call, operands, known, p) ||
         is_clamp_without_room(call) ||
         (record_of(call).name() == "aten::mul.Scalar" && number_of(call, "other") == 0.0);
}

}  // namespace

const std::string& value_relations::origin_of(const std::string& value) const {
  const auto found = same.find(value);
  return found == same.end() ? value : found->second;
}

value_relations relations_of(const task& t) {
  value_relations known;
  const checked_program& p = t.reference;
  if (!p.is_pure_aten()) return known;
  const number_facts_by_value facts = number_facts_of(t);
  const auto is_finite = [&](const std::string& value) { return facts.at(value).finite == finiteness::kept; };
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    const operator_call& call = p.calls[i];
    const auto& results = std::get<aten_step>(p.text.steps[i]).results;
    const auto operands = operands_of(call);
    const bool constant = std::ranges::all_of(operands, [&](const auto& o) { return known.is_constant(o); }) ||
                          traits_of(call).reads == reading::shape_only ||
                          (std::ranges::all_of(operands, is_finite) && is_one_number(call, operands, known, p));
    for (const auto& result : results) {
      if (result.empty()) continue;
      const number_facts& of = facts.at(result);
      if (constant || of.is_one_number() || of.finite == finiteness::nan) known.constant.insert(result);
      if (results.size() != 1 || operands.empty()) continue;
      const std::string& first = operands.front();
      if (keeps_elements(call, p.types.at(first), p.types.at(result), facts.at(first).within))
        known.same[result] = known.origin_of(first);
    }
  }
  return known;
}

}  // namespace cudal1
