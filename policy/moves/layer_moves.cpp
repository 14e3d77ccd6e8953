#include "policy/moves/layer_moves.hpp"

#include <algorithm>

#include "policy/graph/linear_proofs.hpp"
#include "policy/moves/setup_steps.hpp"

namespace cudal1 {

namespace {

// The layer's operator with another weight, bias ("" for none) and input.
operator_use with_operands(const graph& g, const graph_step& layer, const std::string& input, const std::string& weight,
                           const std::string& bias) {
  operator_use by{layer.op(), {}, layer.use->record};
  const auto argument = [&](const std::string& value) -> argument_value {
    if (value.empty()) return std::monostate();
    return tensor_argument{value, g.type_of(value)};
  };
  for (const auto& [name, value] : layer.use->arguments) {
    const bool replaced = name == "input" || name == "weight" || name == "bias";
    by.arguments.emplace_back(name, replaced ? argument(name == "input"    ? input
                                                        : name == "weight" ? weight
                                                                           : bias)
                                             : value);
  }
  return by;
}

// ---- a layer of a layer ---------------------------------------------------------------------------------------------

expected<std::string> apply_composed(graph& g, const move& m, const lowering_target&) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const composed_linear_proof proof, prove_composed_linear(g, *s));
  const int64_t features = g.type_of(proof.weight).shape[0], in = g.type_of(proof.first_weight).shape[1];
  const std::string second = add_conversion(g, proof.weight, dtype::float64);
  const auto product = [&](const char* op, const std::string& right, const char* argument, const std::string& name,
                           std::vector<int64_t> shape) {
    return add_setup_step(g, op, {{"self", json(second)}, {argument, json(right)}}, name,
                          contiguous(dtype::float64, std::move(shape)));
  };
  const std::string first = add_conversion(g, proof.first_weight, dtype::float64);
  const std::string weight =
      add_conversion(g, product("aten::mm", first, "mat2", "weights", {features, in}), dtype::float32);
  std::string bias = proof.bias;
  if (!proof.first_bias.empty()) {
    bias = product("aten::mv", add_conversion(g, proof.first_bias, dtype::float64), "vec", "offset", {features});
    if (!proof.bias.empty()) {
      const std::string own = add_conversion(g, proof.bias, dtype::float64);
      bias = add_setup_step(g, "aten::add.Tensor", {{"self", json(bias)}, {"other", json(own)}}, "offset",
                            contiguous(dtype::float64, {features}));
    }
    bias = add_conversion(g, bias, dtype::float32);
  }
  g.rewrite(s->number, {.by = with_operands(g, *s, proof.values, weight, bias),
                        .certificate = proof.certificate,
                        .left_out = {proof.first}});
  return fmt::format(
      "step {} (aten::linear) reads {} with the product of its weight and that of step {}, which is left "
      "out",
      s->number, proof.values, proof.first);
}

// ---- a layer that is scaled and shifted -----------------------------------------------------------------------------

expected<std::string> apply_scaled(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const scaled_layer_proof proof,
             prove_scaled_layer(g, *s, {.bias_is_free = target.convolutions_add_bias()}));
  const graph_step& layer = g.step_at(proof.layer);
  const std::string weight = scaled_weight(g, proof);
  const auto& shape = layer.result_types[0].shape;
  const std::string bias = shifted_bias(g, proof, layer.op() == "aten::linear" ? shape.back() : shape[1]);
  const std::string input = operand_of(g, layer, "input"), result = layer.text->results[0];
  g.rewrite(proof.layer, {.by = with_operands(g, layer, input, weight, bias),
                          .certificate = proof.certificate,
                          .becomes = s->text->results[0]});
  for (const int step : proof.scaling)
    g.drop(step, step == s->number ? result : "", fmt::format("step {} is folded into step {}", step, proof.layer));
  return fmt::format("steps {} scale and shift the result of step {} ({}), whose weights do that instead",
                     print_steps(proof.scaling), proof.layer, layer.op());
}

// The last steps first: a fold takes all that lead to it.
std::vector<move> scaled_candidates(const graph& g, const lowering_target& target) {
  auto out = each_step("fold_into_layer", g);
  std::erase_if(out, [&](const move& m) {
    const auto step = step_parameter(g, m);
    return !step || !prove_scaled_layer(g, **step, {.bias_is_free = target.convolutions_add_bias()});
  });
  std::ranges::reverse(out);
  return out;
}

}  // namespace

std::vector<move_kind> layer_moves() {
  return {{.name = "fold_into_layer",
           .summary =
               "numbers, weights and batch norms with fixed statistics that scale and shift the features of a linear "
               "layer or convolution are folded into its weights, with a proof that nothing else reads its result",
           .parameters = {"step"},
           .order = 6,
           .parts = {starting_part::proofs},
           .candidates = scaled_candidates,
           .apply = apply_scaled},
          {.name = "compose_linear",
           .summary = "a linear layer of a linear layer's result becomes one with the product of both weights, with a "
                      "proof that nothing else reads that result",
           .parameters = {"step"},
           .order = 7,
           .parts = {starting_part::proofs},
           .candidates = [](const graph& g, const lowering_target&) { return each_step("compose_linear", g); },
           .apply = apply_composed}};
}

}  // namespace cudal1
