#include "policy/moves/memory_moves.hpp"

#include <algorithm>

#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

// What a kernel writes with its dimensions in another order in memory is a view of what it writes.
bool is_written_as_view(const graph& g, const std::string& value) {
  const graph_step* maker = g.producer(value);
  return maker != nullptr && maker->group >= 0 && !g.type_of(value).is_contiguous();
}

// Whether the value is the group's alone: no other step, no caller and no later call reads its memory.
bool is_for_group_only(const graph& g, const kernel_group& group, const std::string& value) {
  const auto& readers = g.readers(value);
  const bool others = std::any_of(readers.begin(), readers.end(), [&](int n) {
    return std::find(group.steps.begin(), group.steps.end(), n) == group.steps.end();
  });
  return !others && !g.is_parameter(value) && !g.is_output(value) && !is_written_as_view(g, value);
}

expected<std::string> operand_to_overwrite(const graph& g, int number, const kernel_body& body) {
  const kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (body.results.size() != 1) return fail(errc::invalid_argument, "group {} has several results", number);
  const body_access& target = body.results[0].target;
  for (const auto& o : body.accesses) {
    const auto& views = g.origin().reference.view_of;
    const bool viewed = views.contains(o.value) ||
                        std::any_of(views.begin(), views.end(), [&](const auto& v) { return v.second == o.value; });
    const auto same = [&](const body_access& b) { return b.value == o.value && b.strides != o.strides; };
    const bool spread = std::any_of(body.accesses.begin(), body.accesses.end(), same);
    if (o.type == target.type && o.strides == target.strides && o.offset == target.offset &&
        is_for_group_only(g, group, o.value) && !viewed && !spread)
      return o.value;
  }
  return fail(errc::invalid_argument, "group {} has no operand of its result's type that nothing reads later", number);
}

expected<std::string> apply_in_place(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const int number, group_parameter(g, m));
  kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (!group.decided.insert("in_place").second)
    return fail(errc::invalid_argument, "group {} writes in place already", number);
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  CUDAL1_TRY(group.options.in_place, operand_to_overwrite(g, number, body));
  CUDAL1_CHECK(check_kernel(g, number, body, target));
  return fmt::format("group {}: overwrites {}, which is in the cache and which nothing reads later", number,
                     group.options.in_place);
}

expected<std::string> apply_recompute(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const int number, group_parameter(g, m));
  kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (!group.decided.insert("recompute").second)
    return fail(errc::invalid_argument, "group {} recomputes already", number);
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  CUDAL1_TRY(const auto kept, target.emit({&body, group.options, "k", ""}));
  group.options.keep_expensive = false;
  CUDAL1_TRY(const auto computed, target.emit({&body, group.options, "k", ""}));
  if (kept.source == computed.source)
    return fail(errc::invalid_argument, "group {} keeps nothing from one pass to the next", number);
  return fmt::format("group {}: values of an earlier pass are recomputed instead of kept", number);
}

}  // namespace

expected<void> check_overwritten(const graph& g) {
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    const kernel_group& group = g.groups()[i];
    const std::string& value = group.options.in_place;
    if (!value.empty() && (g.resolve(value) != value || !is_for_group_only(g, group, value)))
      return fail(errc::invalid_argument, "group {} overwrites {}, which others read", i, value);
  }
  return {};
}

std::vector<move_kind> memory_moves() {
  return {
      {.name = "in_place",
       .summary = "a kernel overwrites an operand that nothing reads later with its result, as an epilogue of a matrix "
                  "product or convolution does",
       .parameters = {"group"},
       .phase = move_phase::execution,
       .parts = {starting_part::plain_kernels, starting_part::elementwise_kernels},
       .candidates = [](const graph& g, const lowering_target&) { return each_group("in_place", g); },
       .apply = apply_in_place},
      {.name = "recompute",
       .summary = "a row kernel recomputes values of an earlier pass instead of keeping them",
       .parameters = {"group"},
       .phase = move_phase::tuning,
       .candidates = [](const graph& g, const lowering_target&) { return each_group("recompute", g); },
       .apply = apply_recompute},
  };
}

}  // namespace cudal1
