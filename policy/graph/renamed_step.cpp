#include "policy/graph/renamed_step.hpp"

#include <algorithm>

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

aten_step renamed_step(const graph& g, int number, const renaming& name) {
  const graph_step &defined = g.definition(number), &now = g.step_at(number);
  aten_step out = *defined.text;
  const auto read_now = [&](const std::string& key) {
    const argument_value* typed = now.argument(key);
    return typed != nullptr ? std::get_if<tensor_argument>(typed) : nullptr;
  };
  for (auto& [key, value] : out.args) {
    if (const auto* operand = read_now(key); operand != nullptr)
      value = json(name(operand->name));
    else if (const argument_value* typed = defined.argument(key))
      value = renamed_argument(*typed, value, name);
  }
  for (const auto& [key, typed] : now.use->arguments) {
    const bool written = std::ranges::count(out.args, key, [](const auto& each) { return each.first; }) > 0;
    if (!written && read_now(key) != nullptr && defined.argument(key) != nullptr)
      out.args.emplace_back(key, json(name(read_now(key)->name)));
  }
  for (auto& result : out.results) {
    if (!result.empty()) result = name(result);
  }
  return out;
}

}  // namespace cudal1
