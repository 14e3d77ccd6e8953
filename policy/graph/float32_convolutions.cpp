#include "policy/graph/float32_convolutions.hpp"

#include <algorithm>

#include "policy/graph/program_changes.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

std::vector<int> convolutions_without_precision(const checked_program& p) {
  std::vector<int> out;
  for (std::size_t i = 0; i < p.text.steps.size(); ++i) {
    const auto* s = std::get_if<aten_step>(&p.text.steps[i]);
    if (s == nullptr || work_parts::record_of(p.calls[i]).kind != operator_kind::convolution) continue;
    if (s->precision.empty() && p.results[i].front().type.type == dtype::float32) out.push_back(static_cast<int>(i));
  }
  return out;
}

expected<std::shared_ptr<const task>> with_float32_convolutions(const task& t, std::span<const int> steps) {
  program changed = t.reference.text;
  for (const int i : steps)
    std::get<aten_step>(changed.steps[static_cast<std::size_t>(i)]).precision = "float32";
  return with_program(t, std::move(changed));
}

}  // namespace cudal1
