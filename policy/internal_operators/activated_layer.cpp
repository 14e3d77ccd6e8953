#include "policy/internal_operators/activated_layer.hpp"

#include "config/base/describe.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/graph/step_arguments.hpp"
#include "policy/internal_operators/step_writer.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::activated_layer";

class layer_writer final : public step_lowering {
 public:
  layer_writer(const graph& g, program_kernels& kernels) : graph_(&g), writer_(g, kernels.into()) {}

  expected<void> add(const graph_step& s, const aten_step& call) override {
    const auto name_of = [&](const char* argument) { return argument_of(call, argument)->as_string(); };
    const tensor_type& type = s.result_types[0];
    const std::string result = call.results[0], columns = writer_.fresh(name_of("weight") + "_columns");
    writer_.add("aten::t", {{"self", json(name_of("weight"))}}, columns);
    std::string rows = name_of("input"), made = result;
    if (type.dim() != 2) {
      const int64_t k = graph_->type_of(*tensor_argument_name(s, "weight")).shape[1];
      rows = writer_.fresh(rows + "_rows");
      made = writer_.fresh(result + "_rows");
      reshape(name_of("input"), {-1, k}, rows);
    }
    writer_.add("aten::_addmm_activation",
                {{"self", json(name_of("bias"))},
                 {"mat1", json(rows)},
                 {"mat2", json(columns)},
                 {"use_gelu", json(*boolean_argument(s, "gelu"))}},
                made);
    if (made != result) reshape(made, type.shape, result);
    return {};
  }

 private:
  void reshape(const std::string& value, const std::vector<int64_t>& shape, const std::string& result) {
    const json self(value), wanted = to_json(shape);
    writer_.add("aten::reshape", {{"self", self}, {"shape", wanted}}, result);
  }

  const graph* graph_;
  step_writer writer_;
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
  if (made_for(g, s.number, between) == nullptr) return no("its operand is read elsewhere");
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
  return {k_name, [](const graph& g, program_kernels& kernels) { return std::make_unique<layer_writer>(g, kernels); }};
}

}  // namespace cudal1
