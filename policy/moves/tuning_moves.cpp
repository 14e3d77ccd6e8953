#include "policy/moves/tuning_moves.hpp"

#include <algorithm>

#include "policy/moves/groups.hpp"

namespace cudal1 {

namespace {

// A tuning option of a group. The target lists its values; it is chosen at most once per group.
struct tuning {
  std::string move, parameter, summary;
  tuning_option option;
  int64_t group_options::*field;
  std::string explanation;  // {} stands for the value
};

std::vector<move> tuning_candidates(const tuning& what, const graph& g, const lowering_target& target) {
  std::vector<move> out;
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    const kernel_group& group = g.groups()[i];
    if (group.steps.empty() || group.decided.contains(what.move)) continue;
    for (const int64_t value : target.values(what.option))
      out.push_back({what.move, {{"group", std::to_string(i)}, {what.parameter, std::to_string(value)}}});
  }
  return out;
}

expected<std::string> apply_tuning(const tuning& what, graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const int number, group_parameter(g, m));
  CUDAL1_TRY(const int64_t value, integer_parameter(m, what.parameter));
  const auto values = target.values(what.option);
  if (std::ranges::find(values, value) == values.end())
    return fail(errc::invalid_argument, "{}={} is not one of {}", what.parameter, value, fmt::join(values, ", "));
  kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (!group.decided.insert(what.move).second)
    return fail(errc::invalid_argument, "{} of group {} was chosen already", what.move, number);
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  if (!target.is_useful(what.option, value, body, group.options))
    return fail(errc::invalid_argument, "{} {}={} would not help group {}", what.move, what.parameter, value, number);
  group.options.*what.field = value;
  CUDAL1_CHECK(check_kernel(g, number, body, target));
  return fmt::format("group {}: {}", number, fmt::format(fmt::runtime(what.explanation), value));
}

const std::vector<tuning>& tunings() {
  static const std::vector<tuning> all = {
      {"block", "threads", "how many threads a block has: blocks are what is distributed over processors",
       tuning_option::threads, &group_options::threads, "blocks of {} threads"},
      {"items", "elements", "how many elements (or rows of a tile) one thread takes; on cuda in vectors of up to 4",
       tuning_option::items, &group_options::items, "{} elements per thread"},
      {"row_threads", "threads",
       "how many threads share a row of a reduction: a few, a warp or a block; the block's other threads take other "
       "rows (cuda)",
       tuning_option::row_threads, &group_options::row_threads, "{} threads per row"},
      {"unroll", "accumulators",
       "how many partial results of a reduction a thread accumulates, so that they vectorise; on cuda how many "
       "vectors of a row a thread reads before it computes",
       tuning_option::accumulators, &group_options::accumulators, "{} partial results per thread"},
      {"tile_rows", "rows", "how many rows of a product's result a block computes (cuda)", tuning_option::tile_rows,
       &group_options::tile_rows, "tiles of {} rows"},
      {"tile_columns", "columns", "how many columns of a product's result a block computes (cuda)",
       tuning_option::tile_columns, &group_options::tile_columns, "tiles of {} columns"},
      {"depth_parts", "parts",
       "into how many parts the sums of a small product are cut, so that all processors have work; a second kernel "
       "adds them up (cuda)",
       tuning_option::depth_parts, &group_options::depth_parts, "sums cut into {} parts"},
  };
  return all;
}

}  // namespace

std::vector<move_kind> tuning_moves() {
  std::vector<move_kind> out;
  for (const auto& what : tunings()) {
    out.push_back({.name = what.move,
                   .summary = what.summary,
                   .parameters = {"group", what.parameter},
                   .phase = move_phase::tuning,
                   .candidates = [&what](const graph& g,
                                         const lowering_target& target) { return tuning_candidates(what, g, target); },
                   .apply = [&what](graph& g, const move& m,
                                    const lowering_target& target) { return apply_tuning(what, g, m, target); }});
  }
  return out;
}

}  // namespace cudal1
