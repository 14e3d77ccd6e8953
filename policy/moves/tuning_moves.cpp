// How a group's kernel is cut: threads, elements, accumulators, and where its result goes.
#include <algorithm>

#include "policy/codegen/body_builder.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/emit_kernel.hpp"
#include "policy/moves/moves.hpp"

namespace cudal1 {

namespace {

// A parameter of a group with few sensible values. It is chosen once.
struct tuning {
  std::string move, parameter, summary;
  std::vector<int64_t> cpu, cuda;
  int64_t group_options::*field;
  // Whether the value can do any good for this kernel with these options.
  std::function<bool(const kernel_body&, const group_options&, device_kind, int64_t)> matters;
  std::string explanation;  // of the group and the value
};

constexpr int64_t k_shortest_loop = 64;  // elements that a block of a pointwise kernel takes on cpu, at least

bool is_elementwise(const kernel_body& body) {
  return body.row_dims == static_cast<int>(body.domain.size());
}

// Rows with columns: what a row kernel on cuda is cut by.
bool has_rows(const kernel_body& body) {
  return body.has_reduction() && !is_elementwise(body);
}

bool has_sum(const kernel_body& body) {
  return std::any_of(body.nodes.begin(), body.nodes.end(), [](const auto& n) { return n.kind == node_kind::reduce; });
}

std::vector<move> tuning_candidates(const tuning& what, const graph& g, device_kind kind) {
  std::vector<move> out;
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    const kernel_group& group = g.groups()[i];
    if (group.steps.empty() || group.decided.contains(what.move)) continue;
    for (const int64_t value : kind == device_kind::cpu ? what.cpu : what.cuda)
      out.push_back({what.move, {{"group", std::to_string(i)}, {what.parameter, std::to_string(value)}}});
  }
  return out;
}

expected<move_note> apply_tuning(const tuning& what, graph& g, const move& m, device_kind kind) {
  CUDAL1_TRY(const int number, group_parameter(g, m));
  CUDAL1_TRY(const int64_t value, integer_parameter(m, what.parameter));
  const auto& values = kind == device_kind::cpu ? what.cpu : what.cuda;
  if (std::find(values.begin(), values.end(), value) == values.end())
    return fail(errc::invalid_argument, "{}={} is not one of {}", what.parameter, value, fmt::join(values, ", "));
  kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (!group.decided.insert(what.move).second)
    return fail(errc::invalid_argument, "{} of group {} was chosen already", what.move, number);
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  if (!what.matters(body, group.options, kind, value))
    return fail(errc::invalid_argument, "{} {}={} can do no good for group {}", what.move, what.parameter, value,
                number);
  group.options.*what.field = value;
  CUDAL1_CHECK(check_kernel(g, number, body, kind));
  return move_note{fmt::format("group {}: {}", number, fmt::format(fmt::runtime(what.explanation), value)), ""};
}

const std::vector<tuning>& tunings() {
  static const std::vector<tuning> all = {
      {"block",
       "threads",
       "how many threads make a block: blocks are what spreads over processors",
       {1, 4, 16, 64, 256, 1024},
       {64, 128, 256, 512, 1024},
       &group_options::threads,
       [](const kernel_body& body, const group_options& options, device_kind kind, int64_t threads) {
         // With an element a thread the threads of a block are the loop that vectorises.
         const bool loop = kind == device_kind::cpu && is_elementwise(body) && body.domain.size() <= 1;
         return !loop || threads * std::max<int64_t>(options.items, 1) >= k_shortest_loop;
       },
       "blocks of {} threads"},
      {"items",
       "elements",
       "how many elements (or rows of a tile) one thread takes; on cuda in vectors of up to 4",
       {1, 16, 64, 256, 1024, 4096},
       {1, 2, 4, 8, 16, 32},
       &group_options::items,
       [](const kernel_body& body, const group_options&, device_kind kind, int64_t) {
         if (kind == device_kind::cuda) return is_elementwise(body);
         return is_elementwise(body) ? body.domain.size() <= 1 : wants_tiles(body);
       },
       "{} elements a thread"},
      {"row_threads",
       "threads",
       "how many threads share a row of a reduction, a few, a warp or a block; the block's other threads take other "
       "rows (cuda)",
       {},
       {1, 4, 8, 16, 32, 64, 128, 256, 512, 1024},
       &group_options::row_threads,
       [](const kernel_body& body, const group_options& options, device_kind, int64_t threads) {
         if (!has_rows(body)) return false;
         group_options chosen = options;
         chosen.row_threads = threads;
         // Less than a warp is for short rows: long ones would be read in pieces far apart.
         if (threads < 32 && !wants_tiles(body) && row_layout_of(body, options).vectors > 64 * threads) return false;
         return row_layout_of(body, chosen).row_threads == threads &&
                row_layout_of(body, options).row_threads != threads;
       },
       "{} threads a row"},
      {"unroll",
       "accumulators",
       "how many partial results of a reduction run side by side in a thread, so that they vectorise; on cuda how many "
       "vectors of a row a thread reads before it computes",
       {16, 32, 64},
       {1, 2, 4, 8, 16},
       &group_options::accumulators,
       [](const kernel_body& body, const group_options& options, device_kind kind, int64_t vectors) {
         if (kind == device_kind::cuda) {
           if (!has_rows(body)) return false;
           group_options chosen = options;
           chosen.accumulators = vectors;
           return row_layout_of(body, chosen).unrolled != row_layout_of(body, options).unrolled;
         }
         return has_sum(body) && !wants_tiles(body);
       },
       "{} partial results side by side"},
  };
  return all;
}

// ---- the result in place of an operand ----

expected<std::string> operand_to_overwrite(const graph& g, int number, const kernel_body& body) {
  const kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (body.results.size() != 1) return fail(errc::invalid_argument, "group {} has several results", number);
  const body_operand& target = body.results[0].target;
  for (const auto& o : body.operands) {
    const auto& readers = g.readers(o.value);
    const bool others = std::any_of(readers.begin(), readers.end(), [&](int n) {
      return std::find(group.steps.begin(), group.steps.end(), n) == group.steps.end();
    });
    const auto& views = g.origin().reference.view_of;
    const bool viewed = views.contains(o.value) ||
                        std::any_of(views.begin(), views.end(), [&](const auto& v) { return v.second == o.value; });
    const auto same = [&](const body_operand& b) { return b.value == o.value && b.strides != o.strides; };
    const bool spread = std::any_of(body.operands.begin(), body.operands.end(), same);
    if (o.type == target.type && o.strides == target.strides && !g.is_parameter(o.value) && !g.is_output(o.value) &&
        !others && !viewed && !spread)
      return o.value;
  }
  return fail(errc::invalid_argument, "group {} has no operand of its result's type that nobody reads later", number);
}

std::vector<move> group_candidates(const std::string& name, const graph& g) {
  std::vector<move> out;
  for (std::size_t i = 0; i < g.groups().size(); ++i) {
    if (!g.groups()[i].steps.empty() && !g.groups()[i].decided.contains(name))
      out.push_back({name, {{"group", std::to_string(i)}}});
  }
  return out;
}

expected<move_note> apply_in_place(graph& g, const move& m, device_kind kind) {
  CUDAL1_TRY(const int number, group_parameter(g, m));
  kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (!group.decided.insert("in_place").second)
    return fail(errc::invalid_argument, "group {} writes in place already", number);
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  CUDAL1_TRY(group.options.in_place, operand_to_overwrite(g, number, body));
  CUDAL1_CHECK(check_kernel(g, number, body, kind));
  return move_note{fmt::format("group {}: writes over {}, which is in the cache and which nobody reads later", number,
                               group.options.in_place),
                   ""};
}

expected<move_note> apply_recompute(graph& g, const move& m, device_kind kind) {
  CUDAL1_TRY(const int number, group_parameter(g, m));
  kernel_group& group = g.groups()[static_cast<std::size_t>(number)];
  if (!group.decided.insert("recompute").second)
    return fail(errc::invalid_argument, "group {} computes again already", number);
  CUDAL1_TRY(const kernel_body body, build_body(g, group.steps));
  CUDAL1_TRY(const auto kept, emit_kernel({&body, group.options, kind, "k", ""}));
  group.options.keep_expensive = false;
  CUDAL1_TRY(const auto computed, emit_kernel({&body, group.options, kind, "k", ""}));
  if (kept.source == computed.source)
    return fail(errc::invalid_argument, "group {} keeps nothing from one pass to the next", number);
  return move_note{fmt::format("group {}: values of an earlier pass are computed again instead of kept", number), ""};
}

}  // namespace

std::vector<move_kind> tuning_moves() {
  std::vector<move_kind> out;
  for (const auto& what : tunings()) {
    out.push_back({what.move,
                   what.summary,
                   {"group", what.parameter},
                   [&what](const graph& g, device_kind kind) { return tuning_candidates(what, g, kind); },
                   [&what](graph& g, const move& m, device_kind kind) { return apply_tuning(what, g, m, kind); }});
  }
  out.push_back({"in_place",
                 "a kernel writes its result over an operand that nobody reads later, as an epilogue of a matrix "
                 "product or convolution does",
                 {"group"},
                 [](const graph& g, device_kind) { return group_candidates("in_place", g); },
                 apply_in_place});
  out.push_back({"recompute",
                 "a row kernel computes values of an earlier pass again instead of keeping them",
                 {"group"},
                 [](const graph& g, device_kind) { return group_candidates("recompute", g); },
                 apply_recompute});
  return out;
}

}  // namespace cudal1
