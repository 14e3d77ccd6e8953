#include "policy/moves/groups.hpp"

#include <algorithm>
#include <set>

namespace cudal1 {

expected<void> check_group(const graph& g, int group, const lowering_target& target) {
  const kernel_group& what = g.groups()[static_cast<std::size_t>(group)];
  CUDAL1_TRY(const kernel_body body, build_body(g, what.steps));
  CUDAL1_CHECK(check_kernel(g, group, body, target));
  CUDAL1_CHECK(g.order());
  return {};
}

expected<void> check_kernel(const graph& g, int group, const kernel_body& body, const lowering_target& target) {
  const auto& options = g.groups()[static_cast<std::size_t>(group)].options;
  CUDAL1_CHECK(target.emit({&body, options, kernel_name(g, group), ""}));
  return {};
}

expected<int> make_group(graph& g, std::vector<int> steps, group_kind kind, int into) {
  for (const int number : steps) {
    const int group = g.step_at(number).group;
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

expected<void> leave_groups(graph& g, const std::vector<int>& steps, const lowering_target& target) {
  std::set<int> left;
  for (const int step : steps)
    if (const int group = g.step_at(step).group; group >= 0) left.insert(group);
  std::vector<std::vector<int>> remaining;
  for (const int group : left) {
    auto& others = remaining.emplace_back(g.groups()[static_cast<std::size_t>(group)].steps);
    g.groups()[static_cast<std::size_t>(group)] = {};
    for (const int each : others)
      g.set_group(each, -1);
    std::erase_if(others, [&](int n) { return std::ranges::count(steps, n) > 0; });
  }
  std::vector<int> made;
  for (const auto& others : remaining) {
    if (others.empty()) continue;
    const bool rows =
        std::ranges::any_of(others, [&](int n) { return family_of(g.step_at(n)) != operator_family::pointwise; });
    CUDAL1_TRY(const int group, make_group(g, others, rows ? group_kind::rows : group_kind::pointwise));
    made.push_back(group);
  }
  for (const int group : made)
    CUDAL1_CHECK(check_group(g, group, target));
  return {};
}

void dissolve_group(graph& g, int group) {
  kernel_group& old = g.groups()[static_cast<std::size_t>(group)];
  for (const int n : old.steps)
    g.set_group(n, -1);
  old = {};
}

void dissolve_unread_groups(graph& g) {
  for (int number = 0; number < std::ssize(g.groups()); ++number) {
    const kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
    const auto inside = [&](int n) { return std::ranges::count(group.steps, n) > 0; };
    const auto is_read = [&](const std::string& value) {
      return g.is_output(value) || !std::ranges::all_of(g.readers(value), inside);
    };
    const bool needed = std::ranges::any_of(
        group.steps, [&](int n) { return std::ranges::any_of(g.step_at(n).text->results, is_read); });
    if (!needed) dissolve_group(g, number);
  }
}

std::string kernel_name(const graph& g, int group) {
  std::string out = "g" + std::to_string(group);
  const auto& steps = g.groups()[static_cast<std::size_t>(group)].steps;
  for (std::size_t i = 0; i < steps.size() && i < 4; ++i)
    out += "_" + short_operator_name(g.step_at(steps[i]).task_op());
  return out;
}

std::string short_operator_name(const std::string& op) {
  std::string out = op.starts_with("aten::") ? op.substr(6) : op;
  return out.substr(0, out.find('.'));
}

std::string operator_names(const graph& g, const std::vector<int>& steps) {
  std::string out;
  for (const int number : steps)
    out += (out.empty() ? "" : ", ") + short_operator_name(g.step_at(number).task_op());
  return out;
}

}  // namespace cudal1
