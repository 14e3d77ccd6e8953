#include "policy/codegen/kernel_template.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "policy/codegen/cuda/templates/fused_attention.hpp"
#include "policy/codegen/cuda/templates/recurrent_layers.hpp"
#include "policy/codegen/cuda/templates/row_topk.hpp"

namespace cudal1 {

// A new template is added to this list only.
const std::vector<kernel_template>& kernel_templates() {
  static const std::vector<kernel_template> all = {attention(), recurrent_layers(), row_topk()};
  return all;
}

expected<const kernel_template*> find_kernel_template(std::string_view name) {
  const auto& all = kernel_templates();
  const auto found = std::ranges::find(all, name, &kernel_template::name);
  if (found != all.end()) return &*found;
  std::vector<std::string> names;
  for (const auto& t : all)
    names.push_back(t.name);
  return fail(errc::invalid_argument, "there is no kernel template \"{}\"; there are {}", name, fmt::join(names, ", "));
}

}  // namespace cudal1
