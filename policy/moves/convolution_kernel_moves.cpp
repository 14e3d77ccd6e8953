#include "policy/moves/convolution_kernel_moves.hpp"

#include <algorithm>
#include <set>

#include "policy/body/body_builder.hpp"
#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "convolution_kernel";

bool is_free_convolution(const graph_step& s) {
  return !s.dropped && s.group < 0 && family_of(s) == operator_family::convolution;
}

// The groups that read the step's result.
std::set<int> groups_behind(const graph& g, const graph_step& s) {
  std::set<int> out;
  for (const int reader : g.readers(s.text->results[0]))
    if (const int group = g.step_at(reader).group; group >= 0) out.insert(group);
  return out;
}

// Each convolution with a group that reads it, where there is one, and alone.
std::vector<move> kernel_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  if (!target.has_convolution_kernels()) return out;
  const auto add = [&](std::vector<int> steps) {
    std::ranges::sort(steps);
    const auto body = build_body(g, steps);
    if (body && target.suits_convolution(*body)) out.push_back({k_name, {{"steps", print_steps(steps)}}});
  };
  for (const auto& s : g.steps()) {
    if (!is_free_convolution(s)) continue;
    for (const int group : groups_behind(g, s)) {
      std::vector<int> steps = g.groups()[static_cast<std::size_t>(group)].steps;
      steps.push_back(s.number);
      add(std::move(steps));
    }
    add({s.number});
  }
  return out;
}

expected<std::string> apply_kernel(graph& g, const move& m, const lowering_target& target) {
  if (!target.has_convolution_kernels())
    return fail(errc::invalid_argument, "there are no kernels of convolutions for {}", target.name());
  CUDAL1_TRY(const auto steps, steps_parameter(g, m, "steps"));
  const auto convolution = std::ranges::find_if(steps, [&](int n) { return is_free_convolution(g.step_at(n)); });
  if (convolution == steps.end())
    return fail(errc::invalid_argument,
                "steps {} contain no convolution that adds up channels and is still a library call",
                print_steps(steps));
  std::vector<int> behind = steps;
  std::erase(behind, *convolution);
  const int number = *convolution;
  std::set<int> groups;
  for (const int n : behind)
    if (const int group = g.step_at(n).group; group >= 0) groups.insert(group);
  if (groups.size() > 1) return fail(errc::invalid_argument, "steps {} are of several groups", print_steps(behind));
  const int into = groups.empty() ? -1 : *groups.begin();
  if (into >= 0 && g.groups()[static_cast<std::size_t>(into)].steps != behind)
    return fail(errc::invalid_argument, "steps {} are not one whole group", print_steps(behind));
  if (into >= 0 && !g.groups()[static_cast<std::size_t>(into)].decided.empty())
    return fail(errc::invalid_argument, "group {} was tuned without the convolution", into);
  CUDAL1_TRY(const int group, make_group(g, steps, group_kind::rows, into));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: step {} ({}) as a kernel that keeps tiles of its input in shared memory{}", group,
                     number, short_operator_name(g.step_at(number).op()),
                     behind.empty() ? "" : fmt::format(", with {} after it", operator_names(g, behind)));
}

}  // namespace

std::vector<move_kind> convolution_kernel_moves() {
  return {{.name = k_name,
           .summary =
               "a convolution of few channels, or of groups of few, as a kernel, exact in float32, together "
               "with the group that reads it (cuda): elementwise steps, or a reduction, softmax or norm over channels",
           .parameters = {"steps"},
           .phase = move_phase::implementation,
           .parts = {starting_part::other_implementations},
           .candidates = kernel_candidates,
           .apply = apply_kernel}};
}

}  // namespace cudal1
