#include "policy/moves/tuning_moves.hpp"

#include <algorithm>

#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

std::vector<move> tuning_candidates(const kernel_tunable& what, const graph& g, const lowering_target& target) {
  std::vector<move> out;
  const std::string name(what.name), parameter(what.parameter);
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    const kernel_group& group = g.groups()[i];
    if (group.steps.empty() || group.decided.contains(name)) continue;
    for (const int64_t value : target.values(what.name))
      out.push_back({name, {{"group", std::to_string(i)}, {parameter, std::to_string(value)}}});
  }
  return out;
}

expected<std::string> apply_tuning(const kernel_tunable& what, graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const int number, group_parameter(g, m));
  CUDAL1_TRY(const int64_t value, integer_parameter(m, what.parameter));
  const auto values = target.values(what.name);
  if (std::ranges::find(values, value) == values.end())
    return fail(errc::invalid_argument, "{}={} is not one of {}", what.parameter, value, fmt::join(values, ", "));
  kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (!group.decided.emplace(what.name).second)
    return fail(errc::invalid_argument, "{} of group {} was chosen already", what.name, number);
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  if (!target.is_useful(what.name, value, body, group.options))
    return fail(errc::invalid_argument, "{} {}={} would not help group {}", what.name, what.parameter, value, number);
  group.options.choose(what.name, value);
  CUDAL1_CHECK(check_kernel(g, number, body, target));
  return fmt::format("group {}: {}", number, fmt::format(fmt::runtime(what.explanation), value));
}

}  // namespace

std::vector<move_kind> tuning_moves() {
  std::vector<move_kind> out;
  for (const auto& what : known_tunables()) {
    out.push_back({.name = std::string(what.name),
                   .summary = std::string(what.summary),
                   .parameters = {"group", std::string(what.parameter)},
                   .phase = move_phase::tuning,
                   .candidates = [&what](const graph& g,
                                         const lowering_target& target) { return tuning_candidates(what, g, target); },
                   .apply = [&what](graph& g, const move& m,
                                    const lowering_target& target) { return apply_tuning(what, g, m, target); }});
  }
  return out;
}

}  // namespace cudal1
