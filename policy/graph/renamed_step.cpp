#include "policy/graph/renamed_step.hpp"

namespace cudal1 {

namespace {

using renaming = std::function<std::string(const std::string& value)>;

json renamed_argument(const argument_value& typed, const json& written, const renaming& name) {
  if (std::holds_alternative<tensor_argument>(typed)) return json(name(written.as_string()));
  if (std::holds_alternative<std::vector<tensor_argument>>(typed)) {
    json::array items;
    for (const auto& each : written.as_array())
      items.push_back(each.is_string() ? json(name(each.as_string())) : each);  // null: left out, as in index
    return json(std::move(items));
  }
  return written;
}

}  // namespace

aten_step renamed_step(const graph_step& s, const renaming& name) {
  aten_step out = *s.text;
  for (auto& [key, value] : out.args) {
    if (const argument_value* typed = s.argument(key)) value = renamed_argument(*typed, value, name);
  }
  for (auto& result : out.results) {
    if (!result.empty()) result = name(result);
  }
  return out;
}

}  // namespace cudal1
