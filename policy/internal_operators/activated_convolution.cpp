#include "policy/internal_operators/activated_convolution.hpp"

#include <algorithm>
#include <utility>

#include "policy/graph/step_arguments.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::activated_convolution";

class convolution_writer final : public step_lowering {
 public:
  explicit convolution_writer(program_kernels& kernels) : out_(&kernels.into()) {}

  expected<void> add(const graph_step& s, const aten_step& call) override {
    const json* const addend = argument_of(call, "addend");
    const json* const bias = argument_of(call, "bias");
    const json none, once(int64_t{1});
    aten_step made;
    made.op = addend != nullptr ? "aten::cudnn_convolution_add_relu" : "aten::cudnn_convolution_relu";
    const auto put = [&](const char* name, const json& value) { made.args.emplace_back(name, value); };
    put("self", *argument_of(call, "input"));
    put("weight", *argument_of(call, "weight"));
    if (addend != nullptr) {
      put("z", *addend);
      put("alpha", once);
    }
    put("bias", bias != nullptr ? *bias : none);
    for (const char* name : {"stride", "padding", "dilation"})
      put(name, pair_of(s, name));
    const json groups(*integer_argument(s, "groups"));
    put("groups", groups);
    made.results = call.results;
    out_->steps.emplace_back(std::move(made));
    return {};
  }

 private:
  // One number stands for both dimensions.
  static json pair_of(const graph_step& s, const char* name) {
    const auto values = *integers_argument(s, name);
    return json(json::array{json(values.front()), json(values.back())});
  }

  program* out_;
};

bool is_convolution(const graph_step& s) {
  return s.op() == "aten::conv2d" && s.group < 0 && s.text->precision.empty() && s.result_types[0].dim() == 4;
}

// The value as a convolution, scaled and shifted or not, that this step alone reads; nothing if it is none.
std::optional<activated_convolution_operands> find_convolution(const graph& g, int step, const std::string& value) {
  const graph_step* made = made_for(g, step, value);
  if (made == nullptr) return std::nullopt;
  activated_convolution_operands out;
  if (is_convolution(*made)) {
    out.layer = made->number;
    out.left_out = {made->number};
    return out;
  }
  auto scaling = prove_scaled_layer(g, *made, {.in_kernels = true, .half_types = true});
  if (!scaling || !is_convolution(g.step_at(scaling->layer))) return std::nullopt;
  // float16 is too narrow for products of weights that are large.
  if (made->result_types[0].type == dtype::float16 && !is_number(scaling->scale, 1)) return std::nullopt;
  out.layer = scaling->layer;
  out.left_out = scaling->scaling;
  out.left_out.push_back(out.layer);
  out.scaling = std::move(*scaling);
  return out;
}

}  // namespace

expected<activated_convolution_operands> operands_of_activated_convolution(const graph& g, const graph_step& s) {
  const auto no = [&](const char* why) {
    return fail(errc::invalid_argument, "step {} ({}) is no ReLU in a library's convolution: {}", s.number, s.task_op(),
                why);
  };
  if (s.dropped || s.op() != "aten::relu") return no("it is not a ReLU, or dropped");
  const tensor_type& type = s.result_types[0];
  if (type.dim() != 4 || type.numel() == 0 || (type.type != dtype::float32 && !is_half(type.type)))
    return no("it is not of a batch of images in float32 or a half type");
  const std::string value = operand_of(g, s, "self");
  if (auto found = find_convolution(g, s.number, value)) return std::move(*found);
  const graph_step* sum = made_for(g, s.number, value);
  if (sum == nullptr || sum->op() != "aten::add.Tensor" || number_argument(*sum, "alpha").value_or(1) != 1)
    return no("what it reads is neither a convolution, scaled and shifted by weights, nor a sum with one");
  for (const auto& [convolved, added] : {std::pair{"other", "self"}, {"self", "other"}}) {
    auto found = find_convolution(g, sum->number, operand_of(g, *sum, convolved));
    const std::string addend = operand_of(g, *sum, added);
    if (!found || addend.empty() || g.type_of(addend) != type) continue;
    found->addend = addend;
    found->left_out.push_back(sum->number);
    return std::move(*found);
  }
  return no("it does not add a value of the same shape to a convolution that nothing else reads");
}

operator_use activated_convolution(const graph& g, const activated_convolution_operands& of, const std::string& weight,
                                   const std::string& bias) {
  operator_use out{k_name, {}};
  const graph_step& layer = g.step_at(of.layer);
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.arguments.emplace_back(name, tensor_argument{value, g.type_of(value)});
  };
  add("input", operand_of(g, layer, "input"));
  add("weight", weight);
  add("bias", bias);
  add("addend", of.addend);
  for (const auto& [name, value] : layer.use->arguments)
    if (name == "stride" || name == "padding" || name == "dilation" || name == "groups")
      out.arguments.emplace_back(name, value);
  return out;
}

internal_operator activated_convolution_operator() {
  return {k_name, [](const graph&, program_kernels& kernels) { return std::make_unique<convolution_writer>(kernels); }};
}

}  // namespace cudal1
