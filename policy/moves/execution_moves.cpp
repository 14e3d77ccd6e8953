#include "policy/moves/execution_moves.hpp"

namespace cudal1 {

namespace {

expected<std::string> apply_graph(graph& g, const move&, const lowering_target& target) {
  if (!target.replays_graphs()) return fail(errc::invalid_argument, "graphs exist on CUDA devices only");
  if (g.replayed()) return fail(errc::invalid_argument, "the program is a graph already");
  g.replay();
  return "the whole program is one CUDA graph, bound to each call's tensors: 1 us a kernel instead of 4.5 us a launch";
}

}  // namespace

std::vector<move_kind> execution_moves() {
  return {
      {.name = "graph",
       .summary = "the program is captured once as a CUDA graph and replayed, its pointers set for each call (cuda)",
       .parameters = {},
       .phase = move_phase::execution,
       .order = 1,
       .parts = {starting_part::plain_kernels, starting_part::unchanged_program},
       .candidates =
           [](const graph&, const lowering_target& target) {
             return target.replays_graphs() ? std::vector<move>{{"graph", {}}} : std::vector<move>{};
           },
       .apply = apply_graph}};
}

}  // namespace cudal1
