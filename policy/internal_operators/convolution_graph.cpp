#include "policy/internal_operators/convolution_graph.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "policy/graph/step_arguments.hpp"
#include "policy/internal_operators/step_writer.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"
#include "sandbox/program/operators/strides.hpp"

namespace cudal1 {

namespace {

constexpr const char* k_name = "cudal1::convolution_graph";

std::string operand_name(std::size_t i) {
  return "operand" + std::to_string(i);
}

class graph_writer final : public step_lowering {
 public:
  graph_writer(const graph& g, program_kernels& kernels) : writer_(g, kernels.into()) {}

  expected<void> add(const graph_step& s, const aten_step& call) override {
    const int64_t channels = s.result_types[0].shape[1];
    json::array operands;
    for (std::size_t i = 0; const json* value = argument_of(call, operand_name(i)); ++i) {
      const auto& type = std::get<tensor_argument>(*s.argument(operand_name(i))).type;
      if (type.dim() == 1 || type.shape == s.result_types[0].shape) {
        operands.push_back(*value);
        continue;
      }
      const std::string view = writer_.fresh(std::string(value->as_string()) + "_of_channels");
      const json shape(json::array{json(channels)});
      writer_.add("aten::reshape", {{"self", *value}, {"shape", shape}}, view);
      operands.push_back(json(view));
    }
    std::vector<std::pair<std::string, json>> args = {{"input", *argument_of(call, "input")},
                                                      {"weight", *argument_of(call, "weight")},
                                                      {"operands", json(std::move(operands))}};
    const auto put = [&](const char* name, json value) { args.emplace_back(name, std::move(value)); };
    for (const char* name : {"stride", "padding", "dilation"})
      put(name, numbers_of(s, name));
    put("transposed", json(*boolean_argument(s, "transposed")));
    put("output_padding", numbers_of(s, "output_padding"));
    put("groups", json(*integer_argument(s, "groups")));
    put("graph", json(*string_argument(s, "graph")));
    put("engine", json(*integer_argument(s, "engine")));
    writer_.add(k_name, std::move(args), call.results[0]);
    return {};
  }

 private:
  // One for each spatial dimension.
  static json numbers_of(const graph_step& s, const char* name) {
    const auto values = integers_argument(s, name).value_or(std::vector<int64_t>{0});
    json::array out;
    for (int64_t d = 0; d < s.result_types[0].dim() - 2; ++d)
      out.push_back(json(values[values.size() == 1 ? 0 : static_cast<std::size_t>(d)]));
    return json(std::move(out));
  }

  step_writer writer_;
};

bool is_convolution(const graph_step& s) {
  constexpr std::string_view names[] = {"aten::conv2d", "aten::conv3d", "aten::conv_transpose2d.input",
                                        "aten::conv_transpose3d.input"};
  if (std::ranges::find(names, s.op()) == std::end(names) || s.group >= 0 || !s.text->precision.empty()) return false;
  const auto* weight = std::get_if<tensor_argument>(s.argument("weight"));
  return weight != nullptr && weight->type.dim() == s.result_types[0].dim();
}

// A function without operands as a word of a chain; nothing for other steps.
std::optional<std::string> function_of(const graph_step& s) {
  constexpr std::pair<std::string_view, const char*> plain[] = {
      {"aten::relu", "relu"},           {"aten::sigmoid", "sigmoid"},  {"aten::tanh", "tanh"},
      {"aten::silu", "silu"},           {"aten::mish", "mish"},        {"aten::hardsigmoid", "hardsigmoid"},
      {"aten::hardswish", "hardswish"}, {"aten::relu6", "clamp(0,6)"}, {"aten::neg", "scale(-1)"}};
  const std::string& op = s.op();
  if (const auto* found = std::ranges::find(plain, op, &std::pair<std::string_view, const char*>::first);
      found != std::end(plain))
    return found->second;
  const auto number = [&](std::string_view name, double otherwise) {
    return number_argument(s, name).value_or(otherwise);
  };
  constexpr double inf = std::numeric_limits<double>::infinity();
  if (op == "aten::gelu") return string_argument(s, "approximate").value_or("none") == "tanh" ? "gelu_tanh" : "gelu";
  if (op == "aten::leaky_relu") return fmt::format("leaky_relu({})", number("negative_slope", 0.01));
  if (op == "aten::hardtanh") return fmt::format("clamp({},{})", number("min_val", -1), number("max_val", 1));
  if (op == "aten::clamp") return fmt::format("clamp({},{})", number("min", -inf), number("max", inf));
  if (op == "aten::elu" && number("scale", 1) == 1 && number("input_scale", 1) == 1)
    return fmt::format("elu({})", number("alpha", 1));
  if (op == "aten::softplus" && number("beta", 1) == 1 && number("threshold", 20) == 20) return "softplus";
  const double alpha = number("alpha", 1);
  const auto other = number_argument(s, "other");
  if (!other) return std::nullopt;
  if (op == "aten::add.Scalar") return fmt::format("shift({})", alpha * *other);
  if (op == "aten::sub.Scalar") return fmt::format("shift({})", -alpha * *other);
  if (op == "aten::mul.Scalar") return fmt::format("scale({})", *other);
  if (op == "aten::div.Scalar" && *other != 0) return fmt::format("scale({})", 1 / *other);
  return std::nullopt;
}

// Whether the value has one number for each channel of the result, or one for each of its elements in the same order.
bool is_operand(const tensor_type& value, const tensor_type& result) {
  if (value.type != result.type) return false;
  if (value == result) return true;
  std::vector<int64_t> shape(static_cast<std::size_t>(std::max<int64_t>(0, result.dim() - value.dim())), 1);
  shape.insert(shape.end(), value.shape.begin(), value.shape.end());
  std::vector<int64_t> of_channels(result.shape.size(), 1);
  of_channels[1] = result.shape[1];
  return shape == of_channels;
}

// Follows what a step reads back to a convolution.
class chain_reader {
 public:
  explicit chain_reader(const graph& g, const tensor_type& type) : graph_(&g), type_(&type) {}

  // Whether a chain that begins with a convolution ends with this step.
  bool read(const graph_step& s) {
    if (s.dropped || s.is_replaced() || s.result_types[0] != *type_ || links_.size() + 1 >= longest_chain) return false;
    left_out_.push_back(s.number);
    if (is_convolution(s)) {
      found_.layer = s.number;
      return true;
    }
    if (is_scaling(s)) return true;
    if (read_function(s) || read_swish(s) || read_binary(s)) return true;
    left_out_.pop_back();
    return false;
  }

  convolution_graph_operands take() {
    std::ranges::sort(left_out_);
    found_.left_out = left_out_;
    found_.links.assign(links_.rbegin(), links_.rend());
    return std::move(found_);
  }

 private:
  using link = convolution_graph_operands::link;

  // Adds the link and goes on with the value, unless no chain leads to that.
  bool go_on(link l, const std::string& value, const graph_step& reader) {
    const graph_step* made = made_for(*graph_, reader.number, value);
    if (made == nullptr) return false;
    links_.push_back(std::move(l));
    if (read(*made)) return true;
    links_.pop_back();
    return false;
  }

  bool is_scaling(const graph_step& s) {
    auto proof = prove_scaled_layer(*graph_, s, {.in_kernels = true, .half_types = true});
    if (!proof || !is_convolution(graph_->step_at(proof->layer))) return false;
    // float16 is too narrow for products of weights that are large.
    if (type_->type == dtype::float16 && !is_number(proof->scale, 1)) return false;
    found_.layer = proof->layer;
    left_out_.pop_back();
    left_out_.insert(left_out_.end(), proof->scaling.begin(), proof->scaling.end());
    left_out_.push_back(proof->layer);
    found_.scaling = std::move(*proof);
    return true;
  }

  bool read_function(const graph_step& s) {
    auto text = function_of(s);
    return text && go_on({std::move(*text), ""}, operand_of(*graph_, s, "self"), s);
  }

  // x * sigmoid(x), both of which read x.
  bool read_swish(const graph_step& s) {
    if (s.op() != "aten::mul.Tensor") return false;
    for (const auto& [gate, own] : {std::pair{"self", "other"}, {"other", "self"}}) {
      const graph_step* sigmoid = made_for(*graph_, s.number, operand_of(*graph_, s, gate));
      if (sigmoid == nullptr || sigmoid->op() != "aten::sigmoid") continue;
      const std::string x = operand_of(*graph_, s, own);
      const graph_step* made = graph_->producer(x);
      if (made == nullptr || operand_of(*graph_, *sigmoid, "self") != x || graph_->is_output(x) ||
          graph_->readers(x) != std::vector<int>{sigmoid->number, s.number})
        continue;
      links_.push_back({"silu", ""});
      left_out_.push_back(sigmoid->number);
      if (read(*made)) return true;
      links_.pop_back();
      left_out_.pop_back();
    }
    return false;
  }

  bool read_binary(const graph_step& s) {
    const bool adds = s.op() == "aten::add.Tensor";
    if ((!adds && s.op() != "aten::mul.Tensor") || number_argument(s, "alpha").value_or(1) != 1) return false;
    for (const auto& [through, with] : {std::pair{"self", "other"}, {"other", "self"}}) {
      const std::string value = operand_of(*graph_, s, through), operand = operand_of(*graph_, s, with);
      if (operand.empty() || operand == value || !is_operand(graph_->type_of(operand), *type_)) continue;
      if (go_on({adds ? "add" : "mul", operand}, value, s)) return true;
    }
    return false;
  }

  const graph* graph_;
  const tensor_type* type_;
  std::vector<link> links_;  // the last one first
  std::vector<int> left_out_;
  convolution_graph_operands found_;
};

}  // namespace

expected<convolution_graph_operands> operands_of_convolution_graph(const graph& g, const graph_step& s) {
  const auto no = [&](const char* why) {
    return fail(errc::invalid_argument, "step {} ({}) ends no chain behind a convolution: {}", s.number, s.task_op(),
                why);
  };
  if (s.dropped || s.result_types.empty()) return no("it was dropped");
  const tensor_type& type = s.result_types[0];
  if (type.dim() < 4 || type.dim() > 5 || type.numel() == 0 || (type.type != dtype::float32 && !is_half(type.type)))
    return no("it is not of a batch of images or volumes in float32 or a half type");
  chain_reader reader(g, type);
  if (!reader.read(s))
    return no("it, or what it reads, is no elementwise function of the chain, or something else reads what is between");
  auto out = reader.take();
  if (out.left_out.size() < 2) return no("nothing follows the convolution");
  return out;
}

expected<void> check_library_has_engine(const graph& g, const convolution_graph_operands& of) {
  const graph_step& layer = g.step_at(of.layer);
  const tensor_type& type = layer.result_types[0];
  const bool transposed = layer.record().traits.transposed;
  const auto strides = integers_argument(layer, "stride").value_or(std::vector<int64_t>{1});
  const auto no = [&](const char* why) {
    return fail(errc::unsupported, "step {} ({}): cuDNN has no engine for {}", of.layer, layer.op(), why);
  };
  if (transposed && type.dim() == 5 && std::ranges::any_of(strides, [](int64_t n) { return n != 1; }))
    return no("chains behind transposed convolutions of volumes with strides");
  if (rules::suggested_format(type) == rules::format::channels_last) return {};
  if (transposed)
    return no("chains behind transposed convolutions whose channels are not the last dimension in memory");
  const auto& links = of.links;
  const bool is_sum = links.size() < 2 || (links.size() == 2 && links[0].function == "add");
  if (is_sum && !links.empty() && links.back().function == "relu") return {};
  return no("chains other than sums with a ReLU where the channels are not the last dimension in memory");
}

operator_use convolution_graph(const graph& g, const convolution_graph_operands& of, const std::string& weight,
                               const std::string& bias, int64_t engine) {
  operator_use out{k_name, {}};
  const graph_step& layer = g.step_at(of.layer);
  const auto add = [&](const std::string& name, const std::string& value) {
    out.arguments.emplace_back(name, tensor_argument{value, g.type_of(value)});
  };
  add("input", operand_of(g, layer, "input"));
  add("weight", weight);
  std::size_t next = 0;
  std::string chain;
  const auto go_on = [&](const std::string& function, const std::string& operand) {
    chain += chain.empty() ? "" : " ";
    chain += operand.empty() ? function : fmt::format("{}({})", function, next);
    if (!operand.empty()) add(operand_name(next++), operand);
  };
  if (!bias.empty()) go_on("add", bias);
  for (const auto& each : of.links)
    go_on(each.function, each.operand);
  for (const auto& [name, value] : layer.use->arguments)
    if (name == "stride" || name == "padding" || name == "dilation" || name == "groups" || name == "output_padding")
      out.arguments.emplace_back(name, value);
  out.arguments.emplace_back("transposed", scalar_value(layer.record().traits.transposed));
  out.arguments.emplace_back("graph", std::move(chain));
  out.arguments.emplace_back("engine", scalar_value(engine));
  return out;
}

internal_operator convolution_graph_operator() {
  return {k_name, [](const graph& g, program_kernels& kernels) { return std::make_unique<graph_writer>(g, kernels); }};
}

}  // namespace cudal1
