#include "policy/moves/move_kind.hpp"

#include <charconv>

namespace cudal1 {

std::vector<move> each_step(const std::string& name, const graph& g) {
  std::vector<move> out;
  for (const auto& s : g.steps())
    out.push_back({name, {{"step", std::to_string(s.number)}}});
  return out;
}

std::vector<move> each_group(const std::string& name, const graph& g) {
  std::vector<move> out;
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    if (!g.groups()[i].steps.empty() && !g.groups()[i].decided.contains(name))
      out.push_back({name, {{"group", std::to_string(i)}}});
  }
  return out;
}

const std::string* find_parameter(const move& m, std::string_view name) {
  for (const auto& [key, value] : m.parameters)
    if (key == name) return &value;
  return nullptr;
}

expected<std::string> text_parameter(const move& m, std::string_view name) {
  if (const std::string* given = find_parameter(m, name)) return *given;
  return fail(errc::invalid_argument, "{} needs a parameter {}", m.name, name);
}

expected<int64_t> integer_parameter(const move& m, std::string_view name) {
  CUDAL1_TRY(const std::string text, text_parameter(m, name));
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size())
    return fail(errc::invalid_argument, "{}={} should be an integer", name, text);
  return value;
}

expected<const graph_step*> step_parameter(const graph& g, const move& m) {
  CUDAL1_TRY(const int64_t number, integer_parameter(m, "step"));
  if (number < 0 || number >= static_cast<int64_t>(g.steps().size()))
    return fail(errc::invalid_argument, "there is no step {}; the task has {} steps", number, g.steps().size());
  return &g.step_at(static_cast<int>(number));
}

expected<std::vector<int>> steps_parameter(const graph& g, const move& m, std::string_view name) {
  CUDAL1_TRY(const std::string text, text_parameter(m, name));
  auto steps = parse_steps(text);
  if (!steps) return fail(errc::invalid_argument, "{}", steps.error().message);
  for (const int number : *steps) {
    if (!g.has_step(number))
      return fail(errc::invalid_argument, "there is no step {}; the task has {} steps", number, g.steps().size());
    if (g.step_at(number).dropped) return fail(errc::invalid_argument, "step {} was dropped", number);
  }
  return steps;
}

expected<int> group_parameter(const graph& g, const move& m) {
  CUDAL1_TRY(const int64_t number, integer_parameter(m, "group"));
  if (number < 0 || number >= static_cast<int64_t>(g.groups().size()))
    return fail(errc::invalid_argument, "there is no group {}; there are {} groups", number, g.groups().size());
  if (g.groups()[static_cast<std::size_t>(number)].steps.empty())
    return fail(errc::invalid_argument, "group {} was absorbed by another group or dropped", number);
  return static_cast<int>(number);
}

}  // namespace cudal1
