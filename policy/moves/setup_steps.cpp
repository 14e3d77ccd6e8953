#include "policy/moves/setup_steps.hpp"

#include <algorithm>
#include <stdexcept>

#include "sandbox/program/operators/strides.hpp"

namespace cudal1 {

namespace {

using kind = constant_expression::kind;

const char* operator_of(kind what) {
  switch (what) {
    case kind::sum:
      return "aten::add.Tensor";
    case kind::difference:
      return "aten::sub.Tensor";
    case kind::product:
      return "aten::mul.Tensor";
    case kind::quotient:
      return "aten::div.Tensor";
    default:
      throw std::logic_error("an expression of one operand has no operator of two");
  }
}

std::string add_weight(graph& g, const std::string& weight) {
  const int64_t count = g.type_of(weight).numel();
  const std::string wide = add_conversion(g, weight, dtype::float64);
  return add_setup_step(g, "aten::reshape", {{"self", json(wide)}, {"shape", json(json::array{json(count)})}},
                        weight + "_flat", contiguous(dtype::float64, {count}));
}

}  // namespace

std::string add_setup_step(graph& g, std::string op, decltype(aten_step::args) args, const std::string& name,
                           const tensor_type& type) {
  for (const auto& made : g.setup())
    if (made.op == op && made.args == args) return made.results[0];
  aten_step s;
  s.op = std::move(op);
  s.args = std::move(args);
  s.results = {g.fresh_name(name)};
  std::string result = s.results[0];
  g.add_setup(std::move(s), type);
  return result;
}

std::string add_conversion(graph& g, const std::string& value, dtype to) {
  const tensor_type& from = g.type_of(value);
  const tensor_type type{to, from.shape, rules::preserved_strides(from)};
  return add_setup_step(g, "aten::to.dtype", {{"self", json(value)}, {"dtype", json(name_of(to))}},
                        value + "_" + name_of(to), type);
}

std::string add_expression(graph& g, const constant_expression& e) {
  if (e.what == kind::weight) return add_weight(g, e.weight);
  if (e.what == kind::number)
    return add_setup_step(
        g, "aten::full",
        {{"size", json(json::array{json(1)})}, {"fill_value", json(e.number)}, {"dtype", json("float64")}}, "number",
        contiguous(dtype::float64, {1}));
  const std::string left = add_expression(g, *e.left);
  if (e.what == kind::root) return add_setup_step(g, "aten::sqrt", {{"self", json(left)}}, "root", g.type_of(left));
  const std::string right = add_expression(g, *e.right);
  const int64_t count = std::max(g.type_of(left).numel(), g.type_of(right).numel());
  return add_setup_step(g, operator_of(e.what), {{"self", json(left)}, {"other", json(right)}}, "scaling",
                        contiguous(dtype::float64, {count}));
}

std::string scaled_weight(graph& g, const scaled_layer_proof& proof) {
  if (is_number(proof.scale, 1)) return proof.weight;
  const tensor_type& type = g.type_of(proof.weight);
  const tensor_type wide{dtype::float64, type.shape, rules::preserved_strides(type)};
  std::vector<int64_t> along(wide.shape.size(), 1);
  const std::string scale = add_expression(g, *proof.scale);
  along[proof.feature_dim] = g.type_of(scale).numel();
  json::array shape;
  for (const int64_t n : along)
    shape.emplace_back(n);
  const std::string factors =
      add_setup_step(g, "aten::reshape", {{"self", json(scale)}, {"shape", json(std::move(shape))}}, "factors",
                     contiguous(dtype::float64, along));
  const std::string own = add_conversion(g, proof.weight, dtype::float64);
  return add_conversion(
      g, add_setup_step(g, "aten::mul.Tensor", {{"self", json(own)}, {"other", json(factors)}}, "weights", wide),
      type.type);
}

std::string shifted_bias(graph& g, const scaled_layer_proof& proof, int64_t features) {
  const auto own = proof.bias.empty() ? constant_of(0) : constant_of(proof.bias);
  const auto bias = sum_of(product_of(proof.scale, own), proof.offset);
  if (is_number(bias, 0)) return "";
  if (bias->what == constant_expression::kind::weight && bias->weight == proof.bias) return proof.bias;
  std::string wide = add_expression(g, *bias);
  if (g.type_of(wide).numel() != features)
    wide = add_setup_step(g, "aten::repeat", {{"self", json(wide)}, {"repeats", json(json::array{json(features)})}},
                          "offset", contiguous(dtype::float64, {features}));
  return add_conversion(g, wide, g.type_of(proof.weight).type);
}

}  // namespace cudal1
