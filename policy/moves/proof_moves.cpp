#include "policy/moves/proof_moves.hpp"

#include "policy/body/operators/constant_fill.hpp"
#include "policy/body/operators/interleave.hpp"
#include "policy/body/operators/merged_read.hpp"
#include "policy/body/operators/row_dot.hpp"
#include "policy/body/operators/row_scale.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/moves/groups.hpp"
#include "policy/moves/setup_steps.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

expected<std::string> apply_drop(graph& g, const move& m, const lowering_target&) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(drop_proof proof, prove_drop(g, *s));
  g.drop(s->number, proof.replaced_by, std::move(proof.certificate));
  if (const int group = s->group; group >= 0) {
    g.set_group(s->number, -1);
    g.groups()[static_cast<std::size_t>(group)] = {};
  }
  return fmt::format("step {} ({}) is left out", s->number, s->task_op());
}

expected<std::string> apply_diagonal(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const diagonal_proof proof, prove_diagonal(g, *s));
  g.rewrite(s->number, {.by = row_scale(g, proof), .certificate = proof.certificate});
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::pointwise));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: step {} ({}) scales the {} of {} by the diagonal, without the product", group,
                     s->number, s->task_op(), proof.scales_rows ? "rows" : "columns", proof.matrix);
}

// Adds setup steps that compute the number in one element, as the task's own steps do; returns its name.
std::string constant_number(graph& g, const constant_proof& proof) {
  const tensor_type one = contiguous(dtype::float32, {1});
  std::string name = add_setup_step(
      g, "aten::full",
      {{"size", json(json::array{json(1)})}, {"fill_value", json(proof.base)}, {"dtype", json("float32")}}, "constant",
      one);
  for (const int number : proof.chain) {
    const graph_step& definition = g.definition(number);
    aten_step next = *definition.text;
    for (auto& [key, value] : next.args)
      if (const auto* typed = definition.argument(key);
          typed != nullptr && std::holds_alternative<tensor_argument>(*typed))
        value = json(name);
    next.results = {g.fresh_name("constant")};
    name = next.results[0];
    g.add_setup(std::move(next), one);
  }
  return name;
}

expected<std::string> apply_constant(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const constant_proof proof, prove_constant(g, *s));
  const std::string number = constant_number(g, proof);
  g.rewrite(s->number, {.by = constant_fill(g, number), .certificate = proof.certificate});
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::pointwise));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: step {} ({}) is a number that set-up computes once; nothing before it is needed for it",
                     group, s->number, s->task_op());
}

// Adds a setup step that sums a weight over its first dimension in double; returns the name of the sum.
std::string summed_weight(graph& g, const std::string& weight) {
  const auto& shape = g.type_of(weight).shape;
  return add_setup_step(g, "aten::sum.dim_IntList",
                        {{"self", json(weight)}, {"dim", json(json::array{json(0)})}, {"dtype", json("float64")}},
                        weight + "_sum", contiguous(dtype::float64, {shape.begin() + 1, shape.end()}));
}

// The sum of the layer's bias and of the weights that are added to its result; "" if there are none.
std::string summed_offset(graph& g, const linear_sum_proof& proof) {
  std::string offset = proof.bias.empty() ? "" : summed_weight(g, proof.bias);
  for (const auto& weight : proof.added) {
    const std::string sum = summed_weight(g, weight.name);
    if (offset.empty() && !weight.subtracted) {
      offset = sum;
      continue;
    }
    const tensor_type number = contiguous(dtype::float64, {});
    if (offset.empty())
      offset = add_setup_step(g, "aten::neg", {{"self", json(sum)}}, "offset", number);
    else
      offset = add_setup_step(g, weight.subtracted ? "aten::sub.Tensor" : "aten::add.Tensor",
                              {{"self", json(offset)}, {"other", json(sum)}}, "offset", number);
  }
  return offset;
}

expected<std::string> apply_pull_sum(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const linear_sum_proof proof, prove_linear_sum(g, *s));
  const std::string weights = summed_weight(g, proof.weight);
  const std::string offset = summed_offset(g, proof);
  std::vector<int> left_out = proof.between;
  left_out.push_back(proof.linear);
  g.rewrite(s->number, {.by = row_dot(g, proof.values, weights, offset, proof.factor),
                        .certificate = proof.certificate,
                        .left_out = std::move(left_out)});
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::rows));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format(
      "group {}: step {} ({}) is one product of {} with a vector; the linear layer of step {} is left out", group,
      s->number, s->task_op(), proof.values, proof.linear);
}

expected<std::string> apply_interleave(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const interleave_proof proof, prove_interleave(g, *s));
  g.rewrite(s->number, {.by = interleave(g, proof), .certificate = proof.certificate, .left_out = {proof.stack}});
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::pointwise));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format(
      "group {}: step {} ({}) takes the parts of the stack of step {} in turn, in a kernel that others "
      "may join",
      group, s->number, s->task_op(), proof.stack);
}

expected<std::string> apply_merge(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const merged_dimensions_proof proof, prove_merged_dimensions(g, *s));
  g.rewrite(s->number,
            {.by = merged_dimensions(g, proof), .certificate = proof.certificate, .left_out = proof.left_out});
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::pointwise));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format(
      "group {}: step {} ({}) reads the elements from where step {} would copy them, in a kernel that "
      "others may join",
      group, s->number, s->task_op(), proof.left_out.back());
}

expected<std::string> made_at_set_up(graph& g, const std::string& value);

// The names that the tensors of a list have there; null for those that are left out.
expected<json> list_made_at_set_up(graph& g, const std::vector<tensor_argument>& list) {
  json::array names;
  for (const auto& item : list) {
    if (item.name.empty()) {
      names.emplace_back();
      continue;
    }
    CUDAL1_TRY(std::string name, made_at_set_up(g, g.resolve(item.name)));
    names.emplace_back(std::move(name));
  }
  return json(std::move(names));
}

// Adds the steps that lead from weights to the value to set-up; returns the name that it has there.
// errc::invalid_argument with the reason where an input is read.
expected<std::string> made_at_set_up(graph& g, const std::string& value) {
  if (g.is_constant(value)) return value;
  const graph_step* s = g.producer(value);
  if (s == nullptr) return fail(errc::invalid_argument, "{} is an input", value);
  if (s->is_replaced() || s->group >= 0 || s->text->results.size() != 1)
    return fail(errc::invalid_argument, "step {} ({}) is no longer a call with one result", s->number, s->op());
  aten_step made = *s->text;
  for (auto& [key, written] : made.args) {
    const auto* typed = s->argument(key);
    if (typed == nullptr) continue;
    if (const auto* list = std::get_if<std::vector<tensor_argument>>(typed)) {
      CUDAL1_TRY(written, list_made_at_set_up(g, *list));
    }
    if (const auto* operand = std::get_if<tensor_argument>(typed)) {
      CUDAL1_TRY(const std::string name, made_at_set_up(g, g.resolve(operand->name)));
      written = json(name);
    }
  }
  return add_setup_step(g, std::move(made.op), std::move(made.args), value, s->result_types[0]);
}

expected<std::string> apply_set_up(graph& g, const move& m, const lowering_target&) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  const auto stays = [&](const std::string& why) {
    return fail(errc::invalid_argument, "step {} ({}) stays: {}", s->number, s->op(), why);
  };
  if (s->dropped || s->text->results.size() != 1) return stays("it is dropped, or has several results");
  const std::string result = s->text->results[0];
  if (s->record().kind == operator_kind::view) return stays("a view takes no time");
  if (g.operands(*s).empty()) return stays("it reads no weight");
  if (g.is_output(result)) return stays("its result is an output, which must not share memory with another call's");
  if (!is_floating(s->result_types[0].type)) return stays("its result has no floating-point numbers");
  const auto name = made_at_set_up(g, result);
  if (!name) return stays(name.error().message);
  const int number = s->number;
  const std::string op = s->op();
  g.drop(number, *name, fmt::format("step {} ({}) reads weights only, which are the same in every call", number, op));
  return fmt::format("step {} ({}) runs once, at set-up: it reads weights only", number, op);
}

// A rewriting of one step.
move_kind proof_move(const std::string& name, std::string summary, int order, decltype(move_kind::apply) apply) {
  return {.name = name,
          .summary = std::move(summary),
          .parameters = {"step"},
          .phase = move_phase::always,
          .order = order,
          .parts = {starting_part::proofs},
          .candidates = [name](const graph& g, const lowering_target&) { return each_step(name, g); },
          .apply = std::move(apply)};
}

}  // namespace

// In a whole schedule the rewriting of products comes before `drop`, which removes the steps that it leaves dead.
std::vector<move_kind> proof_moves() {
  move_kind pull_sum = proof_move("pull_sum_through_linear",
                                  "a sum over the features of a linear layer becomes one product with the sum of its "
                                  "weights, with a proof that nothing else reads the layer's result",
                                  0, apply_pull_sum);
  pull_sum.parts = {};
  return {
      proof_move("drop",
                 "an operator that is dead, changes nothing, repeats elements as its readers would, or shifts what a "
                 "norm centres "
                 "is left out, with a proof",
                 4, apply_drop),
      proof_move("set_up",
                 "an operator that reads weights only runs once, at set-up, with a proof that no input is read", 1,
                 apply_set_up),
      proof_move("diagonal_matmul",
                 "a product with a diagonal matrix scales rows or columns instead, with a proof that it is diagonal", 2,
                 apply_diagonal),
      proof_move("constant", "a value that no input changes is written as the number that it is, with a proof", 3,
                 apply_constant),
      proof_move("interleave",
                 "a stack whose last two dimensions are merged becomes part of a kernel over the elements", 5,
                 apply_interleave),
      proof_move(
          "merge_dimensions",
          "a copy of a view that merges dimensions of another copy reads what that one does, and becomes part of "
          "a kernel over the elements",
          8, apply_merge),
      std::move(pull_sum),
  };
}

}  // namespace cudal1
