#include "policy/codegen/emit_kernel.hpp"

#include <iterator>

namespace cudal1 {

void emitted_kernel::append(emitted_kernel next) {
  source += (source.empty() ? "" : "\n") + next.source;
  work.merge(next.work);
  setup.insert(setup.end(), std::make_move_iterator(next.setup.begin()), std::make_move_iterator(next.setup.end()));
  steps.insert(steps.end(), std::make_move_iterator(next.steps.begin()), std::make_move_iterator(next.steps.end()));
}

std::optional<kernel_body> with_one_column(const kernel_body& body) {
  if (!body.is_elementwise() || !body.has_reduction()) return std::nullopt;
  kernel_body out = body;
  out.axes.push_back({1, axis_role::reduced});
  for (auto& o : out.accesses)
    o.strides.push_back(0);
  for (auto& r : out.results)
    r.target.strides.push_back(0);
  return out;
}

}  // namespace cudal1
