#include "policy/prompt/task_bounds.hpp"

#include <algorithm>
#include <set>

namespace cudal1 {

namespace {

// The tensors that a step reads, each once.
std::set<std::string> operands_of(const operator_call& call) {
  std::set<std::string> names;
  for (const auto& value : call.arguments) {
    if (const auto* one = std::get_if<tensor_argument>(&value)) names.insert(one->name);
    if (const auto* many = std::get_if<std::vector<tensor_argument>>(&value))
      for (const auto& item : *many)
        if (!item.name.empty()) names.insert(item.name);
  }
  return names;
}

}  // namespace

task_bounds bounds_of(const task& t, const std::optional<device_data>& device) {
  task_bounds b;
  b.work = work_of(t);
  if (device) b.roof = roofline_of(b.work, *device);
  const checked_program& p = t.reference;
  const std::set<std::string> outputs(p.text.outputs.begin(), p.text.outputs.end());
  for (std::size_t i = 0; i < p.calls.size(); ++i) {
    int64_t written = 0;
    const auto* call = std::get_if<aten_step>(&p.text.steps[i]);
    for (std::size_t k = 0; call != nullptr && k < p.results[i].size(); ++k) {
      const auto& result = p.results[i][k];
      if (result.view_of || k >= call->results.size() || call->results[k].empty()) continue;
      written += result.type.storage_bytes();
      if (!outputs.contains(call->results[k]))
        b.largest_intermediate = std::max(b.largest_intermediate, result.type.storage_bytes());
    }
    if (written == 0) continue;
    ++b.operators;
    b.stepwise_bytes += written;
    for (const auto& name : operands_of(p.calls[i]))
      b.stepwise_bytes += p.types.at(name).storage_bytes();
  }
  return b;
}

}  // namespace cudal1
