#include "policy/codegen/activated_layer.hpp"

#include <set>

#include "policy/graph/proofs.hpp"
#include "policy/graph/step_arguments.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::activated_layer";

class layer_writer final : public step_lowering {
 public:
  layer_writer(const graph& g, program_kernels& kernels) : graph_(&g), out_(&kernels.into()) {}

  expected<void> add(const graph_step& s, const aten_step& call) override {
    const auto name_of = [&](const char* argument) { return argument_of(call, argument)->as_string(); };
    const tensor_type& type = s.result_types[0];
    const std::string result = call.results[0], columns = fresh(name_of("weight") + "_columns");
    add_step("aten::t", {{"self", json(name_of("weight"))}}, columns);
    std::string rows = name_of("input"), made = result;
    const int64_t terms = graph_->type_of(graph_->resolve(*tensor_argument_name(s, "weight"))).shape[1];
    if (type.dim() != 2) {
      const std::string input = std::exchange(rows, fresh(rows + "_rows"));
      made = fresh(result + "_rows");
      const json shape(json::array{json(int64_t{-1}), json(terms)});
      add_step("aten::reshape", {{"self", json(input)}, {"shape", shape}}, rows);
    }
    add_step("aten::_addmm_activation",
             {{"self", json(name_of("bias"))},
              {"mat1", json(rows)},
              {"mat2", json(columns)},
              {"use_gelu", json(*boolean_argument(s, "gelu"))}},
             made);
    if (made == result) return {};
    json::array shape;
    for (const int64_t n : type.shape)
      shape.emplace_back(n);
    add_step("aten::reshape", {{"self", json(made)}, {"shape", json(std::move(shape))}}, result);
    return {};
  }

 private:
  void add_step(const char* op, std::vector<std::pair<std::string, json>> args, const std::string& result) {
    aten_step added;
    added.op = op;
    added.args = std::move(args);
    added.results = {result};
    out_->steps.emplace_back(std::move(added));
  }

  std::string fresh(const std::string& name) {
    std::string out = graph_->fresh_name(name);
    for (int n = 2; !taken_.insert(out).second; ++n)
      out = graph_->fresh_name(name + "_" + std::to_string(n));
    return out;
  }

  const graph* graph_;
  program* out_;
  std::set<std::string> taken_;
};

}  // namespace

expected<activated_layer_operands> operands_of_activated_layer(const graph& g, const graph_step& s) {
  const auto no = [&](const char* why) {
    return fail(errc::invalid_argument, "step {} ({}) is no activation in a library's product: {}", s.number,
                s.task_op(), why);
  };
  activated_layer_operands out;
  out.gelu = s.op() == "aten::gelu" && string_argument(s, "approximate") == "tanh";
  if (s.dropped || (s.op() != "aten::relu" && !out.gelu)) return no("it is neither a ReLU nor a GELU by tanh");
  if (!is_half(s.result_types[0].type)) return no("it is not of a half type");
  const std::string between = operand_of(g, s, "self");
  const graph_step* layer = g.producer(between);
  if (layer == nullptr || layer->dropped || layer->group >= 0 || layer->op() != "aten::linear")
    return no("what it reads is not made by aten::linear in the library");
  if (g.is_output(between) || g.readers(between) != std::vector<int>{s.number})
    return no("its operand is read elsewhere");
  out.layer = layer->number;
  out.input = operand_of(g, *layer, "input");
  out.weight = operand_of(g, *layer, "weight");
  out.bias = operand_of(g, *layer, "bias");
  if (out.bias.empty()) return no("the layer has no bias");
  const tensor_type& input = g.type_of(out.input);
  if (input.dim() < 2 || input.numel() == 0 || g.type_of(out.weight).numel() == 0)
    return no("the layer has one row, or none");
  if (input.dim() > 2 && !input.is_contiguous()) return no("the layer's rows are not evenly spaced in memory");
  return out;
}

operator_use activated_layer(const graph& g, const activated_layer_operands& of) {
  operator_use out{k_name, {}};
  for (const auto& [name, value] : {std::pair("input", &of.input), {"weight", &of.weight}, {"bias", &of.bias}})
    out.arguments.emplace_back(name, tensor_argument{*value, g.type_of(*value)});
  out.arguments.emplace_back("gelu", scalar_value(of.gelu));
  return out;
}

internal_operator activated_layer_operator() {
  return {k_name, nullptr, std::nullopt,
          [](const graph& g, program_kernels& kernels) { return std::make_unique<layer_writer>(g, kernels); }};
}

}  // namespace cudal1
