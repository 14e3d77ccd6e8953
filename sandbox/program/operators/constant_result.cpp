#include "sandbox/program/operators/constant_result.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

using namespace work_parts;

namespace {

std::optional<double> number_of(const operator_call& call, std::string_view name) {
  const auto* value = argument<scalar_value>(call, name);
  if (value == nullptr) return std::nullopt;
  return std::visit([](auto x) { return static_cast<double>(x); }, *value);
}

// An operator that takes the first operand's elements as they are, in their order.
bool keeps_elements(const operator_call& call, const tensor_type& operand, const tensor_type& result) {
  const operator_record& r = record_of(call);
  if (operand.numel() != result.numel() || operand.type != result.type) return false;
  // Every element is reduced alone.
  if (r.traits.is_noop_on_size_one) return true;
  if (r.kind == operator_kind::copy) return r.traits.kernel && r.traits.kernel->form == kernel_form::identity;
  return r.kind == operator_kind::view && r.traits.swaps == transposition::none && !r.traits.moves_start_address &&
         (r.name().starts_with("aten::view") || r.name().starts_with("aten::reshape") ||
          r.name().starts_with("aten::squeeze") || r.name().starts_with("aten::unsqueeze") ||
          r.name().starts_with("aten::flatten") || r.name().starts_with("aten::unflatten") ||
          r.name().starts_with("aten::alias") || r.name().starts_with("aten::detach"));
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

// The argument as a number; the default where it is not given, and nothing where it is no number.
std::optional<double> limit_of(const operator_call& call, std::string_view name, double otherwise) {
  const auto& declared = call.op->schema.arguments;
  for (std::size_t i = 0; i < declared.size(); ++i)
    if (declared[i].name == name && call.arguments[i].index() != 0) return number_of(call, name);
  return otherwise;
}

// Where the elements of a value are that are not NaN, after the clamps that it went through.
using ranges = std::map<std::string, bounds>;
bounds range_after(const operator_call& call, const std::string& operand, const ranges& known) {
  const auto& clips = record_of(call).traits.clips;
  if (!clips) return {};
  const auto low = limit_of(call, clips->low_argument, clips->limits.low);
  const auto high = limit_of(call, clips->high_argument, clips->limits.high);
  if (!low || !high || *low > *high) return {};
  const auto found = known.find(operand);
  const bounds before = found == known.end() ? bounds{} : found->second;
  return {std::clamp(before.low, *low, *high), std::clamp(before.high, *low, *high)};
}

}  // namespace

const std::string& value_relations::origin_of(const std::string& value) const {
  const auto found = same.find(value);
  return found == same.end() ? value : found->second;
}

value_relations relations_of(const checked_program& p) {
  value_relations known;
  if (!p.is_pure_aten()) return known;
  ranges within;
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    const operator_call& call = p.calls[i];
    const auto& results = std::get<aten_step>(p.text.steps[i]).results;
    const auto operands = operands_of(call);
    const auto type_of = [&](const std::string& value) -> const tensor_type& { return p.types.at(value); };
    const bounds range = operands.empty() ? bounds{} : range_after(call, known.origin_of(operands.front()), within);
    const bool constant =
        range.low == range.high || std::ranges::all_of(operands, [&](const auto& o) { return known.is_constant(o); }) ||
        traits_of(call).reads == reading::shape_only || has_single_rows(call, type_of(operands.front())) ||
        subtracts_itself(call, operands, known, p) || is_clamp_without_room(call) ||
        (record_of(call).name() == "aten::mul.Scalar" && number_of(call, "other") == 0.0);
    for (const auto& result : results) {
      if (result.empty()) continue;
      if (constant) known.constant.insert(result);
      within[result] = range;
      if (results.size() == 1 && !operands.empty() && keeps_elements(call, type_of(operands.front()), type_of(result)))
        known.same[result] = known.origin_of(operands.front());
    }
  }
  return known;
}

}  // namespace cudal1
