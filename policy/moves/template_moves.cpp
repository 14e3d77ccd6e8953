#include "policy/moves/template_moves.hpp"

#include <algorithm>
#include <memory>

#include <fmt/ranges.h>

#include "policy/internal_operators/template_step.hpp"
#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

// All choices of values of the tunables from the first one on; nothing for one that the template decides on.
void add_choices(const kernel_template& t, std::size_t first, const move& so_far, std::vector<move>& out) {
  if (first == t.tunables.size()) {
    out.push_back(so_far);
    return;
  }
  add_choices(t, first + 1, so_far, out);
  for (const int64_t value : t.tunables[first].values) {
    move with = so_far;
    with.parameters.emplace_back(t.tunables[first].name, std::to_string(value));
    add_choices(t, first + 1, with, out);
  }
}

std::vector<move> candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  if (!target.writes_templates()) return out;
  for (const auto& s : g.steps())
    for (const auto& t : kernel_templates())
      if (!s.dropped && !s.is_replaced() && s.group < 0 && t.fits(g, s))
        add_choices(t, 0, {"template", {{"step", std::to_string(s.number)}, {"kernel", t.name}}}, out);
  return out;
}

expected<std::string> apply(graph& g, const move& m, const lowering_target& target) {
  if (!target.writes_templates()) return fail(errc::invalid_argument, "kernel templates are for GPUs");
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const std::string name, text_parameter(m, "kernel"));
  CUDAL1_TRY(const kernel_template* t, find_kernel_template(name));
  if (s->dropped || s->is_replaced() || s->group >= 0)
    return fail(errc::invalid_argument, "step {} ({}) is not a library call any more", s->number, s->task_op());
  CUDAL1_CHECK(t->fits(g, *s));
  tunable_values chosen;
  std::string said;
  for (const auto& [parameter, text] : m.parameters) {
    if (parameter == "step" || parameter == "kernel") continue;
    CUDAL1_TRY(const int64_t value, integer_parameter(m, parameter));
    const auto of = std::ranges::find(t->tunables, parameter, &tunable::name);
    if (of == t->tunables.end()) return fail(errc::invalid_argument, "the template {} has no {}", name, parameter);
    if (std::ranges::count(of->values, value) == 0)
      return fail(errc::invalid_argument, "{}={} is not one of {}", parameter, value, fmt::join(of->values, ", "));
    chosen[parameter] = value;
    said += fmt::format(", {} {}", value, parameter);
  }
  template_operands operands{s->use->arguments, {}};
  if (t->operands != nullptr) operands = t->operands(g, *s);
  graph_step replaced = *s;
  replaced.use = std::make_shared<const operator_use>(use_of_template(*t, std::move(operands.arguments), chosen));
  CUDAL1_CHECK(t->write(g, replaced, chosen));
  const int number = s->number;
  const std::string summary = fmt::format("step {} ({}) as one kernel{}: {}", number, s->task_op(), said, t->summary);
  CUDAL1_CHECK(leave_groups(g, operands.left_out, target));
  g.rewrite(number, {.by = *replaced.use,
                     .certificate = fmt::format("step {}: the kernel template {} computes it", number, name),
                     .left_out = std::move(operands.left_out)});
  return summary;
}

}  // namespace

std::vector<move_kind> template_moves() {
  move_kind kind{.name = "template",
                 .summary = "a step as a kernel of its own algorithm, such as the greatest elements of rows (cuda)",
                 .parameters = {"step", "kernel"},
                 .phase = move_phase::implementation,
                 .parts = {starting_part::other_implementations},
                 .candidates = candidates,
                 .apply = apply};
  for (const auto& t : kernel_templates())
    for (const auto& each : t.tunables)
      if (std::ranges::count(kind.optional, each.name) == 0) kind.optional.push_back(each.name);
  return {kind};
}

}  // namespace cudal1
