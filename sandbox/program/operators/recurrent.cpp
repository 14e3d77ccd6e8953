// Recurrent layers and cells. ATen's kernels do not check the sizes of their parameters and would read out of bounds,
// so all of them are checked here.
#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

namespace rules {

namespace {

// Checks a parameter or state: the given shape, the input's type, contiguous.
expected<void> check_part(const tensor_type& t, const tensor_type& input, const std::vector<int64_t>& shape,
                          std::string_view name) {
  CUDAL1_CHECK(check_same_type(input, t, "input", name));
  if (t.shape != shape) return refuse("{} is {}, but should have shape {}", name, t.text(), shape_text(shape));
  if (!is_plain(t)) return not_covered("{} is {}, but must be contiguous here", name, t.text());
  return {};
}

struct layers {
  int64_t gates = 1, count = 1, directions = 1, hidden = 1;
  int64_t states() const { return saturating_multiply(count, directions); }
};

// In the order of nn.LSTM's flat weights: for each layer, for each direction: w_ih, w_hh, then b_ih and b_hh.
expected<void> check_parameters(const arguments& a, const tensor_type& input, const layers& l) {
  const auto params = a.tensors("params");
  const bool biases = a.flag("has_biases");
  const int64_t each = biases ? 4 : 2, wanted = saturating_multiply(l.states(), each);
  if (static_cast<int64_t>(params.size()) != wanted)
    return refuse("params has {} tensors, but should have {}: {} for each of {} layers in {} directions", params.size(),
                  wanted, each, l.count, l.directions);
  const int64_t rows = saturating_multiply(l.gates, l.hidden);
  std::size_t next = 0;
  const auto check = [&](const std::vector<int64_t>& shape) {
    const auto name = fmt::format("params[{}]", next);
    return check_part(params[next++], input, shape, name);
  };
  for (int64_t layer = 0; layer < l.count; ++layer)
    for (int64_t direction = 0; direction < l.directions; ++direction) {
      CUDAL1_CHECK(check({rows, layer == 0 ? input.shape[2] : saturating_multiply(l.directions, l.hidden)}));
      CUDAL1_CHECK(check({rows, l.hidden}));
      for (int b = 0; biases && b < 2; ++b)
        CUDAL1_CHECK(check({rows}));
    }
  return {};
}

expected<void> check_dropout(const arguments& a) {
  const double p = a.real("dropout");
  if (!(p >= 0 && p <= 1)) return refuse("dropout is {}, but should lie in 0 to 1", p);
  if (a.flag("train") && p != 0)
    return refuse("train is true and dropout is {}: results that depend on live randomness cannot be verified", p);
  return {};
}

constexpr std::string_view cell_state_names[] = {"hx[0]", "hx[1]"};

rule recurrent(int64_t gates) {
  return [=](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_rank(input, 3, 3, "input"));
    CUDAL1_CHECK(check_dropout(a));
    const bool has_cells = gates == 4;
    const auto states = has_cells ? a.tensors("hx") : std::vector<tensor_type>{a.tensor("hx")};
    if (has_cells && states.size() != 2)
      return refuse("hx has {} tensors, but should have two: hidden states and cells", states.size());
    CUDAL1_CHECK(check_rank(states.front(), 3, 3, has_cells ? "hx[0]" : "hx"));
    layers l;
    l.gates = gates;
    l.count = a.integer("num_layers");
    if (l.count < 1) return refuse("num_layers is {}, but should be positive", l.count);
    l.directions = a.flag("bidirectional") ? 2 : 1;
    l.hidden = states.front().shape[2];
    const bool batch_first = a.flag("batch_first");
    const int64_t steps = input.shape[batch_first ? 1 : 0], batch = input.shape[batch_first ? 0 : 1];
    const std::vector<int64_t> state_shape{l.states(), batch, l.hidden};
    for (std::size_t i = 0; i < states.size(); ++i)
      CUDAL1_CHECK(check_part(states[i], input, state_shape, has_cells ? cell_state_names[i] : "hx"));
    CUDAL1_CHECK(check_parameters(a, input, l));
    auto output = contiguous(input.type, {steps, batch, saturating_multiply(l.directions, l.hidden)});
    if (batch_first) {
      std::swap(output.shape[0], output.shape[1]);
      std::swap(output.strides[0], output.strides[1]);
    }
    std::vector<operator_result> results{{std::move(output), {}}};
    results.resize(1 + states.size(), {contiguous(input.type, state_shape), {}});
    return results;
  };
}

rule recurrent_cell(int64_t gates) {
  return [=](const arguments& a) -> outcome {
    const auto& input = a.tensor("input");
    CUDAL1_CHECK(check_kind(input, floats, "input"));
    CUDAL1_CHECK(check_rank(input, 2, 2, "input"));
    const bool has_cells = gates == 4;
    const auto states = has_cells ? a.tensors("hx") : std::vector<tensor_type>{a.tensor("hx")};
    if (has_cells && states.size() != 2)
      return refuse("hx has {} tensors, but should have two: hidden state and cell", states.size());
    CUDAL1_CHECK(check_rank(states.front(), 2, 2, has_cells ? "hx[0]" : "hx"));
    const int64_t hidden = states.front().shape[1], rows = saturating_multiply(gates, hidden);
    const std::vector<int64_t> state_shape{input.shape[0], hidden};
    for (std::size_t i = 0; i < states.size(); ++i)
      CUDAL1_CHECK(check_part(states[i], input, state_shape, has_cells ? cell_state_names[i] : "hx"));
    CUDAL1_CHECK(check_part(a.tensor("w_ih"), input, {rows, input.shape[1]}, "w_ih"));
    CUDAL1_CHECK(check_part(a.tensor("w_hh"), input, {rows, hidden}, "w_hh"));
    if (a.is_null("b_ih") != a.is_null("b_hh")) return not_covered("give both b_ih and b_hh, or neither");
    for (const auto* name : {"b_ih", "b_hh"})
      if (const auto* bias = a.optional_tensor(name)) CUDAL1_CHECK(check_part(*bias, input, {rows}, name));
    return std::vector<operator_result>(states.size(), {contiguous(input.type, state_shape), {}});
  };
}

}  // namespace

}  // namespace rules

namespace {

using namespace work_parts;

// Each step of a layer multiplies its input and its state by every matrix of the layer.
double recurrent_flops(const operator_call& call, const tensor_type&) {
  const auto* input = tensor_of(call, "input");
  if (input == nullptr || input->shape.empty()) return 0;
  const auto rows = static_cast<double>(input->numel()) / static_cast<double>(input->shape.back());
  double weights = 0;
  if (const auto* params = argument<std::vector<tensor_argument>>(call, "params"))
    for (const auto& p : *params)
      if (p.type.dim() == 2) weights += static_cast<double>(p.type.numel());
  for (const auto* name : {"w_ih", "w_hh"})
    if (const auto* t = tensor_of(call, name)) weights += static_cast<double>(t->numel());
  return 2 * rows * weights;
}

}  // namespace

std::vector<operator_record> recurrent_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::recurrent, {
      {"aten::lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)", recurrent(4), {.flops = recurrent_flops, .cudnn_cell = 2}},
      {"aten::gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", recurrent(3), {.flops = recurrent_flops, .cudnn_cell = 3}},
      {"aten::rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", recurrent(1), {.flops = recurrent_flops, .cudnn_cell = 1}},
      {"aten::rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)", recurrent(1), {.flops = recurrent_flops, .cudnn_cell = 0}},
      {"aten::lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)", recurrent_cell(4), {.flops = recurrent_flops}},
      {"aten::gru_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", recurrent_cell(3), {.flops = recurrent_flops}},
      {"aten::rnn_tanh_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", recurrent_cell(1), {.flops = recurrent_flops}},
      {"aten::rnn_relu_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor", recurrent_cell(1), {.flops = recurrent_flops}},
  });
  // clang-format on
}

}  // namespace cudal1
