#include "sandbox/program/batch_size.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "sandbox/program/operators/batch_rules.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace {

// Puts the size of a dimension that holds the batch into the list of sizes that a step asks for.
void set_asked_size(aten_step& s, const batch_place& at, int64_t batch) {
  for (auto& [name, value] : s.args) {
    if ((name != "size" && name != "shape") || !value.is_array() || at.dim >= value.as_array().size()) continue;
    json& asked = value.as_array()[at.dim];
    if (asked.is_int() && asked.as_int() != -1) asked = json(at.outer * batch * at.inner);
  }
}

bool asks_for_sizes(const aten_step& s, const operator_call& call) {
  return is_reshape(call) || s.op == "aten::expand" || s.op == "aten::broadcast_to";
}

}  // namespace

expected<int64_t> batch_size_of(const checked_program& p) {
  if (p.text.inputs.empty() || p.text.inputs.front().type.dim() == 0)
    return fail(errc::unsupported, "its first input has no dimension that could be the batch");
  const int64_t batch = p.text.inputs.front().type.shape[0];
  if (batch < 2)
    return fail(errc::unsupported, "it was tuned for a batch of {}: search one of at least 2, whose dimension is known",
                batch);
  return batch;
}

expected<checked_program> with_batch_size(const checked_program& p, int64_t batch) {
  CUDAL1_TRY(const int64_t before, batch_size_of(p));
  std::map<std::string, batch_place> places;
  program made = p.text;
  for (auto& input : made.inputs) {
    auto& type = input.type;
    if (type.dim() == 0 || type.shape[0] != before) continue;
    if (!type.is_contiguous())
      return fail(errc::unsupported, "{} is not contiguous, so its strides may depend on the batch", input.name);
    type.shape[0] = batch;
    type = contiguous(type.type, type.shape);
    places[input.name] = {};
  }
  for (std::size_t i = 0; i < made.steps.size(); ++i) {
    auto& s = std::get<aten_step>(made.steps[i]);
    const auto operands = work_parts::operands_of(p.calls[i]);
    if (std::ranges::none_of(operands, [&](const auto& n) { return places.contains(n); })) continue;
    const auto rule = batch_of_step(s, p.calls[i], p.results[i], places, before);
    if (!rule) return fail_in(step_label(i, p.text.steps[i]), rule.error());
    if (!rule->read_in_parts.empty())
      return fail(errc::unsupported, "{}: its elements of the batch read different parts of {}",
                  step_label(i, p.text.steps[i]), rule->read_in_parts.begin()->first);
    for (std::size_t r = 0; r < s.results.size(); ++r)
      if (!s.results[r].empty()) places[s.results[r]] = rule->results[r];
    if (asks_for_sizes(s, p.calls[i])) set_asked_size(s, rule->results.front(), batch);
  }
  return check_program(std::move(made));
}

}  // namespace cudal1
