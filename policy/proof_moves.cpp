// Mathematical short-circuits: legal only with a proof, which the variant keeps.
#include "policy/moves.hpp"
#include "policy/proofs.hpp"

namespace cudal1 {

namespace {

expected<const graph_step*> step_parameter(const graph& g, const move& m) {
  CUDAL1_TRY(const int64_t number, integer_parameter(m, "step"));
  if (number < 0 || number >= static_cast<int64_t>(g.steps().size()))
    return fail(errc::invalid_argument, "there is no step {}; the task has {}", number, g.steps().size());
  return &g.step_at(static_cast<int>(number));
}

std::vector<move> each_step(const std::string& name, const graph& g) {
  std::vector<move> out;
  for (const auto& s : g.steps())
    out.push_back({name, {{"step", std::to_string(s.number)}}});
  return out;
}

expected<move_note> apply_drop(graph& g, const move& m, device_kind) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const drop_proof proof, prove_drop(g, *s));
  if (!proof.replaced_by.empty()) g.replace(s->text->results[0], proof.replaced_by);
  const int group = s->group;
  g.step_at(s->number).dropped = true;
  if (group >= 0) {
    g.step_at(s->number).group = -1;
    g.groups()[static_cast<std::size_t>(group)] = {};
  }
  return move_note{fmt::format("step {} ({}) is left out", s->number, s->op()), proof.certificate};
}

expected<move_note> apply_diagonal(graph& g, const move& m, device_kind kind) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const diagonal_proof proof, prove_diagonal(g, *s));
  graph_step& changed = g.step_at(s->number);
  changed.scaling = proof.scaling;
  CUDAL1_TRY(const int group, make_group(g, {changed.number}, group_kind::pointwise));
  CUDAL1_CHECK(check_group(g, group, kind));
  return move_note{
      fmt::format("group {}: step {} ({}) scales the {} of {} by the diagonal, without the product", group,
                  changed.number, changed.op(), proof.scaling.scales_rows ? "rows" : "columns", proof.scaling.matrix),
      proof.certificate};
}

}  // namespace

std::vector<move_kind> proof_moves() {
  return {
      {"drop",
       "a dead or idempotent operator is left out, with a proof that nothing changes",
       {"step"},
       [](const graph& g, device_kind) { return each_step("drop", g); },
       apply_drop},
      {"diagonal_matmul",
       "a product with a diagonal matrix scales rows or columns instead, with a proof that it is diagonal",
       {"step"},
       [](const graph& g, device_kind) { return each_step("diagonal_matmul", g); },
       apply_diagonal},
  };
}

}  // namespace cudal1
