// Mathematical short-circuits: legal only with a proof, which the variant keeps.
#include "policy/graph/proofs.hpp"
#include "policy/moves/moves.hpp"

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
  if (s->split_product) return fail(errc::invalid_argument, "step {} was split into TF32 products already", s->number);
  CUDAL1_TRY(const drop_proof proof, prove_drop(g, *s));
  if (proof.replaced_by.empty()) {
    g.drop(s->number);
  } else {
    g.drop(s->number, proof.replaced_by);
  }
  const int group = s->group;
  if (group >= 0) {
    g.set_group(s->number, -1);
    g.groups()[static_cast<std::size_t>(group)] = {};
  }
  return move_note{fmt::format("step {} ({}) is left out", s->number, s->op()), proof.certificate};
}

expected<move_note> apply_diagonal(graph& g, const move& m, device_kind kind) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const diagonal_proof proof, prove_diagonal(g, *s));
  g.rewrite(s->number, proof.scaling);
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::pointwise));
  CUDAL1_CHECK(check_group(g, group, kind));
  return move_note{
      fmt::format("group {}: step {} ({}) scales the {} of {} by the diagonal, without the product", group, s->number,
                  s->op(), proof.scaling.scales_rows ? "rows" : "columns", proof.scaling.matrix),
      proof.certificate};
}

// A value that is the sum of a weight over its first dimension, made once and in double.
std::string summed_weight(graph& g, const std::string& weight) {
  aten_step sum;
  sum.op = "aten::sum.dim_IntList";
  sum.args = {{"self", json(weight)}, {"dim", json(json::array{json(0)})}, {"dtype", json("float64")}};
  sum.results = {g.fresh_name(weight + "_sum")};
  const tensor_type& from = g.type_of(weight);
  std::string name = sum.results[0];
  g.add_setup(std::move(sum), contiguous(dtype::float64, {from.shape.begin() + 1, from.shape.end()}));
  return name;
}

expected<move_note> apply_pull_sum(graph& g, const move& m, device_kind kind) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const linear_sum_proof proof, prove_linear_sum(g, *s));
  if (g.step_at(proof.linear).split_product)
    return fail(errc::invalid_argument, "step {} was split into TF32 products already", proof.linear);
  row_dot dot;
  dot.values = proof.values;
  dot.weights = summed_weight(g, proof.weight);
  if (!proof.bias.empty()) dot.offset = summed_weight(g, proof.bias);
  dot.factor = proof.factor;
  g.rewrite(s->number, std::move(dot));
  g.drop(proof.linear);
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::rows));
  CUDAL1_CHECK(check_group(g, group, kind));
  return move_note{fmt::format("group {}: step {} ({}) is one product of {} with a vector; the linear layer of step {} "
                               "is left out",
                               group, s->number, s->op(), proof.values, proof.linear),
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
      {"pull_sum_through_linear",
       "a sum over the features of a linear layer becomes one product with the sum of its weights, with a proof that "
       "nobody reads the layer itself",
       {"step"},
       [](const graph& g, device_kind) { return each_step("pull_sum_through_linear", g); },
       apply_pull_sum},
  };
}

}  // namespace cudal1
