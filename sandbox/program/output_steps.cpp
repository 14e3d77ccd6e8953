#include "sandbox/program/output_steps.hpp"

#include <algorithm>

namespace cudal1 {

output_steps::output_steps(const checked_program& p) {
  for (const auto& output : p.text.outputs) {
    const auto viewed = p.view_of.find(output);
    roots_.insert(viewed == p.view_of.end() ? output : viewed->second);
  }
}

bool output_steps::contains(const step& s) const {
  if (const auto* alloc = std::get_if<alloc_step>(&s)) return roots_.contains(alloc->name);
  const auto* aten = std::get_if<aten_step>(&s);
  return aten != nullptr && std::any_of(aten->results.begin(), aten->results.end(), [this](const std::string& result) {
           return !result.empty() && roots_.contains(result);
         });
}

}  // namespace cudal1
