#include "policy/moves/implementation_moves.hpp"

#include <algorithm>

#include "policy/body/operators/extremum_index.hpp"
#include "policy/body/operators/product_operators.hpp"
#include "policy/internal_operators/activated_convolution.hpp"
#include "policy/internal_operators/activated_layer.hpp"
#include "policy/internal_operators/class_loss.hpp"
#include "policy/internal_operators/split_product.hpp"
#include "policy/moves/groups.hpp"
#include "policy/moves/setup_steps.hpp"

namespace cudal1 {

namespace {

std::vector<move> precision_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  if (!target.has_tf32_products()) return out;
  for (const auto& s : g.steps()) {
    if (find_product_signature(s.task_op()) == nullptr) continue;
    out.push_back({"precision", {{"step", std::to_string(s.number)}, {"as", "tf32x3"}}});
    if (target.accepted() == accuracy::half)
      out.push_back({"precision", {{"step", std::to_string(s.number)}, {"as", "tf32"}}});
  }
  return out;
}

expected<std::string> apply_precision(graph& g, const move& m, const lowering_target& target) {
  if (!target.has_tf32_products()) return fail(errc::invalid_argument, "TF32 exists on CUDA devices only");
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  CUDAL1_TRY(const std::string as, text_parameter(m, "as"));
  if (as != "tf32x3" && as != "tf32") return fail(errc::invalid_argument, "as={} is not one of tf32x3, tf32", as);
  if (s->dropped || s->is_replaced() || s->group >= 0)
    return fail(errc::invalid_argument, "step {} ({}) is not a library product any more", s->number, s->task_op());
  CUDAL1_TRY(const float32_operands operands, float32_operands_of(g, *s));
  if (as == "tf32") {
    g.rewrite(s->number,
              {.by = tf32_product(*s),
               .certificate = fmt::format("step {}: {} and {} are rounded to 11 bits, which precision half accepts",
                                          s->number, operands.a, operands.b)});
    return fmt::format("step {} ({}): one product in TF32, as exact as one of half types", s->number, s->task_op());
  }
  g.rewrite(s->number,
            {.by = split_product(*s),
             .certificate = fmt::format("step {}: (a_high + a_low)(b_high + b_low) without a_low b_low, which is below "
                                        "2^-22 of the product; assumes that {} and {} are finite",
                                        s->number, operands.a, operands.b)});
  return fmt::format(
      "step {} ({}): {} and {} each as a high and a low part, three TF32 products and their sum instead of one float32 "
      "product: about twice as fast where it is bound by arithmetic",
      s->number, s->task_op(), operands.a, operands.b);
}

std::vector<move> loss_candidates(const graph& g, const lowering_target&) {
  std::vector<move> out;
  for (const auto& s : g.steps())
    if (operands_of_class_loss(g, s)) out.push_back({"class_loss", {{"step", std::to_string(s.number)}}});
  return out;
}

expected<std::string> apply_loss(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  if (s->dropped || s->is_replaced())
    return fail(errc::invalid_argument, "step {} ({}) is not a library call any more", s->number, s->task_op());
  CUDAL1_TRY(const class_loss_operands operands, operands_of_class_loss(g, *s));
  CUDAL1_CHECK(leave_groups(g, operands.left_out, target));
  g.rewrite(s->number, {.by = class_loss(g, *s, operands),
                        .certificate = fmt::format("step {}: log(sum(exp(x - max))) - (x[target] - max) is the loss of "
                                                   "each row of {}",
                                                   s->number, operands.values),
                        .left_out = operands.left_out});
  return fmt::format(
      "step {} ({}): one kernel for the rows of {}, which are read twice and never written, and one for "
      "their sum",
      s->number, s->task_op(), operands.values);
}

// ---- the place of an extremum ---------------------------------------------------------------------------------------

std::vector<move> index_candidates(const graph& g, const lowering_target&) {
  std::vector<move> out;
  for (const auto& s : g.steps())
    if (!s.dropped && searched_row_of(g, s)) out.push_back({"extremum_index", {{"step", std::to_string(s.number)}}});
  return out;
}

expected<std::string> apply_index(graph& g, const move& m, const lowering_target& target) {
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  if (s->dropped) return fail(errc::invalid_argument, "step {} was dropped", s->number);
  CUDAL1_TRY(const searched_row row, searched_row_of(g, *s));
  const std::string positions =
      add_setup_step(g, "aten::arange", {{"end", json(row.columns)}, {"dtype", json("float32")}}, "positions",
                     contiguous(dtype::float32, {row.columns}));
  g.rewrite(s->number, {.by = extremum_index(g, *s, positions),
                        .certificate = fmt::format("step {}: the first element that equals the extremum of its row, or "
                                                   "is NaN, is where the extremum is",
                                                   s->number)});
  CUDAL1_TRY(const int group, make_group(g, {s->number}, group_kind::rows));
  CUDAL1_CHECK(check_group(g, group, target));
  return fmt::format("group {}: step {} ({}) as one kernel that takes a row at a time", group, s->number, s->task_op());
}

// ---- the activation of a layer --------------------------------------------------------------------------------------

// cuDNN convolves single elements of images whose channels are not contiguous in float32, and in TF32 where it applies
// a ReLU.
bool loses_precision(const graph& g, const activated_convolution_operands& of) {
  const graph_step& layer = g.step_at(of.layer);
  const auto& weight = g.type_of(operand_of(g, layer, "weight")).shape;
  return layer.result_types[0].type == dtype::float32 && weight[2] == 1 && weight[3] == 1 &&
         g.type_of(operand_of(g, layer, "input")).is_contiguous();
}

std::vector<move> activation_candidates(const graph& g, const lowering_target& target) {
  std::vector<move> out;
  if (!target.library_applies_activations()) return out;
  for (const auto& s : g.steps()) {
    const auto convolution = operands_of_activated_convolution(g, s);
    if (convolution ? !loses_precision(g, *convolution) : operands_of_activated_layer(g, s).has_value())
      out.push_back({"library_activation", {{"step", std::to_string(s.number)}}});
  }
  return out;
}

expected<std::string> activate_convolution(graph& g, int number, const activated_convolution_operands& of,
                                           const lowering_target& target) {
  std::vector<int> left_out = of.left_out, all = left_out;
  std::ranges::sort(left_out);
  all.push_back(number);
  CUDAL1_CHECK(leave_groups(g, all, target));
  const graph_step& layer = g.step_at(of.layer);
  const int64_t channels = layer.result_types[0].shape[1];
  const std::string weight = of.scaling ? scaled_weight(g, *of.scaling) : operand_of(g, layer, "weight");
  const std::string bias = of.scaling ? shifted_bias(g, *of.scaling, channels) : operand_of(g, layer, "bias");
  g.rewrite(number, {.by = activated_convolution(g, of, weight, bias),
                     .certificate = of.scaling ? of.scaling->certificate
                                               : fmt::format("step {}: nothing else reads what steps {} make", number,
                                                             print_steps(left_out)),
                     .left_out = left_out});
  return fmt::format("steps {} and {} ({}, ReLU): one call of the library", print_steps(left_out), number,
                     g.definition(of.layer).op());
}

expected<std::string> apply_activation(graph& g, const move& m, const lowering_target& target) {
  if (!target.library_applies_activations())
    return fail(errc::invalid_argument, "only a GPU's library applies activations in its products");
  CUDAL1_TRY(const graph_step* s, step_parameter(g, m));
  const int number = s->number;
  auto convolution = operands_of_activated_convolution(g, *s);
  if (convolution) return activate_convolution(g, number, *convolution, target);
  auto layer = operands_of_activated_layer(g, *s);
  if (!layer) return tl::unexpected(s->result_types[0].dim() == 4 ? convolution.error() : layer.error());
  const activated_layer_operands operands = std::move(*layer);
  CUDAL1_CHECK(leave_groups(g, {number}, target));
  const std::string between = g.step_at(operands.layer).text->results[0];
  g.rewrite(number, {.by = activated_layer(g, operands),
                     .certificate = fmt::format("step {}: the activation of {}, which step {} makes and nothing "
                                                "else reads, before it is rounded",
                                                number, between, operands.layer),
                     .left_out = {operands.layer}});
  return fmt::format("steps {} and {} (aten::linear, {}): the library applies the activation in its product",
                     operands.layer, number, g.definition(number).op());
}

}  // namespace

std::vector<move_kind> implementation_moves() {
  return {
      {.name = "class_loss",
       .summary = "a cross-entropy over many classes as a kernel over rows that writes no probabilities",
       .parameters = {"step"},
       .phase = move_phase::implementation,
       .parts = {starting_part::other_implementations},
       .candidates = loss_candidates,
       .apply = apply_loss},
      {.name = "library_activation",
       .summary = "a ReLU or tanh GELU of a linear layer of half types, or a ReLU of a convolution with what scales, "
                  "shifts or is added to its result, as part of the library's call (cuda)",
       .parameters = {"step"},
       .phase = move_phase::implementation,
       .parts = {starting_part::other_implementations},
       .candidates = activation_candidates,
       .apply = apply_activation},
      {.name = "extremum_index",
       .summary = "an argmax or argmin as a kernel over rows",
       .parameters = {"step"},
       .phase = move_phase::implementation,
       .parts = {starting_part::other_implementations},
       .candidates = index_candidates,
       .apply = apply_index},
      {.name = "precision",
       .summary = "a float32 library product as three TF32 products on split operands, which keeps float32's "
                  "precision; or as one (as=tf32), where half precision is accepted (cuda)",
       .parameters = {"step", "as"},
       .phase = move_phase::implementation,
       .parts = {starting_part::other_implementations},
       .candidates = precision_candidates,
       .apply = apply_precision}};
}

}  // namespace cudal1
