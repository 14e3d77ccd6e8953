#include "policy/moves/moves.hpp"

#include <algorithm>
#include <charconv>

#include "policy/codegen/emit_kernel.hpp"

namespace cudal1 {

namespace {

// "relu" of "aten::relu", "sum" of "aten::sum.dim_IntList".
std::string short_name(const std::string& op) {
  std::string out = op.starts_with("aten::") ? op.substr(6) : op;
  return out.substr(0, out.find('.'));
}

expected<std::string> text_parameter(const move& m, std::string_view name) {
  for (const auto& [key, value] : m.parameters) {
    if (key == name) return value;
  }
  return fail(errc::invalid_argument, "{} needs a parameter {}", m.name, name);
}

}  // namespace

const std::vector<move_kind>& move_kinds() {
  static const std::vector<move_kind> kinds = [] {
    std::vector<move_kind> all = proof_moves();
    for (auto& family : {grouping_moves(), tuning_moves(), execution_moves()})
      all.insert(all.end(), family.begin(), family.end());
    return all;
  }();
  return kinds;
}

const move_kind* find_move(std::string_view name) {
  for (const auto& kind : move_kinds()) {
    if (kind.name == name) return &kind;
  }
  return nullptr;
}

expected<move_note> apply_move(graph& g, const move& m, device_kind kind) {
  const move_kind* found = find_move(m.name);
  if (found == nullptr) {
    std::string names;
    for (const auto& each : move_kinds())
      names += (names.empty() ? "" : ", ") + each.name;
    return fail(errc::invalid_argument, "there is no move \"{}\"; there are {}", m.name, names);
  }
  std::vector<std::string> given;
  for (const auto& [name, value] : m.parameters)
    given.push_back(name);
  if (given != found->parameters) {
    std::string wanted;
    for (const auto& name : found->parameters)
      wanted += (wanted.empty() ? "" : ", ") + name + "=...";
    return fail(errc::invalid_argument, "{} should be written {}({})", m.name, m.name, wanted);
  }
  return found->apply(g, m, kind);
}

expected<int64_t> integer_parameter(const move& m, std::string_view name) {
  CUDAL1_TRY(const std::string text, text_parameter(m, name));
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size())
    return fail(errc::invalid_argument, "{}={} should be an integer", name, text);
  return value;
}

expected<std::vector<int>> steps_parameter(const graph& g, const move& m, std::string_view name) {
  CUDAL1_TRY(const std::string text, text_parameter(m, name));
  auto steps = parse_steps(text);
  if (!steps) return fail(errc::invalid_argument, "{}", steps.error().message);
  for (const int number : *steps) {
    if (!g.has_step(number))
      return fail(errc::invalid_argument, "there is no step {}; the task has {}", number, g.steps().size());
    if (g.step_at(number).dropped) return fail(errc::invalid_argument, "step {} was dropped", number);
  }
  return steps;
}

expected<int> group_parameter(const graph& g, const move& m) {
  CUDAL1_TRY(const int64_t number, integer_parameter(m, "group"));
  if (number < 0 || number >= static_cast<int64_t>(g.groups().size()))
    return fail(errc::invalid_argument, "there is no group {}; there are {}", number, g.groups().size());
  if (g.groups()[static_cast<std::size_t>(number)].steps.empty())
    return fail(errc::invalid_argument, "group {} went into another one", number);
  return static_cast<int>(number);
}

expected<void> check_group(const graph& g, int group, device_kind kind) {
  const kernel_group& what = g.groups()[static_cast<std::size_t>(group)];
  CUDAL1_TRY(const kernel_body body, build_body(g, what.steps));
  CUDAL1_CHECK(check_kernel(g, group, body, kind));
  CUDAL1_CHECK(g.order());
  return {};
}

expected<void> check_kernel(const graph& g, int group, const kernel_body& body, device_kind kind) {
  const auto& options = g.groups()[static_cast<std::size_t>(group)].options;
  CUDAL1_CHECK(emit_kernel({&body, options, kind, kernel_name(g, group), ""}));
  return {};
}

expected<int> make_group(graph& g, std::vector<int> steps, group_kind kind, int into) {
  for (const int number : steps) {
    const int group = g.step_at(number).group;
    if (g.step_at(number).split_product)
      return fail(errc::invalid_argument, "step {} was split into TF32 products already", number);
    if (group < 0 || group == into) continue;
    const kernel_group& old = g.groups()[static_cast<std::size_t>(group)];
    const bool covered = std::includes(steps.begin(), steps.end(), old.steps.begin(), old.steps.end());
    if (old.kind != group_kind::pointwise || !covered)
      return fail(errc::invalid_argument, "step {} is in group {} already", number, group);
  }
  for (const int number : steps) {
    const int group = g.step_at(number).group;
    if (group >= 0 && group != into) g.groups()[static_cast<std::size_t>(group)] = {};
  }
  if (into < 0) {
    into = static_cast<int>(g.groups().size());
    g.groups().emplace_back();
  }
  kernel_group& made = g.groups()[static_cast<std::size_t>(into)];
  made.kind = kind;
  made.steps.insert(made.steps.end(), steps.begin(), steps.end());
  std::sort(made.steps.begin(), made.steps.end());
  made.steps.erase(std::unique(made.steps.begin(), made.steps.end()), made.steps.end());
  for (const int number : made.steps)
    g.set_group(number, into);
  return into;
}

std::string kernel_name(const graph& g, int group) {
  std::string out = "g" + std::to_string(group);
  const auto& steps = g.groups()[static_cast<std::size_t>(group)].steps;
  for (std::size_t i = 0; i < steps.size() && i < 4; ++i)
    out += "_" + short_name(g.step_at(steps[i]).op());
  return out;
}

std::string operator_names(const graph& g, const std::vector<int>& steps) {
  std::string out;
  for (const int number : steps)
    out += (out.empty() ? "" : ", ") + short_name(g.step_at(number).op());
  return out;
}

std::vector<std::pair<std::string, std::string>> move_catalogue() {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& kind : move_kinds())
    out.emplace_back(kind.name, kind.summary);
  return out;
}

}  // namespace cudal1
