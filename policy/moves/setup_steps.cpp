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

}  // namespace cudal1
