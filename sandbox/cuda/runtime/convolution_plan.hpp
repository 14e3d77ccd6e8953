// A convolution and the chain of functions behind it as one graph of cuDNN. A plan says which of cuDNN's engines runs
// the graph; some engines are compiled for it, which takes up to seconds. Exported KernelBench files contain the text
// of this header and the two below (tools/kernelbench): C++17 that needs only the standard library and PyTorch.
#pragma once

#include <algorithm>
#include <deque>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "sandbox/cuda/runtime/cudnn_calls.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"

struct cudnnContext;
namespace at::native {
// As ATen/cudnn/Handle.h declares it, which needs cuDNN's headers: the handle of this thread, on the current stream.
TORCH_CUDA_CPP_API cudnnContext* getCudnnHandle();
}  // namespace at::native

namespace cudal1 {

// What a plan depends on beside the device and cuDNN. All tensors are dense, with the channels last or in the
// task's order.
struct convolution_graph_key {
  at::ScalarType type = at::kFloat;
  bool channels_last = false, transposed = false, tf32 = false, deterministic = false;
  std::vector<int64_t> input, weight, result, stride, padding, dilation;  // sizes; one for each spatial dimension
  std::vector<bool> operand_is_of_channels;
  std::string chain;
  int64_t engine = 0, alignment = 16;  // of all addresses, bytes

  auto tied() const {
    return std::tie(type, channels_last, transposed, tf32, deterministic, input, weight, result, stride, padding,
                    dilation, operand_is_of_channels, chain, engine, alignment);
  }
  bool operator<(const convolution_graph_key& other) const { return tied() < other.tied(); }
};

struct convolution_plan {
  std::deque<cudnn_descriptor> parts;  // what the plan was made of
  cudnn_descriptor plan;
  int64_t workspace_bytes = 0;
  std::vector<int64_t> ids;    // of the memory that it is given: input, weight, result, operands, numbers
  std::vector<float> numbers;  // of the chain, on the host
  std::string engine;          // "engine 5 (2: 1, 14: 4)": its number in cuDNN, and its knobs
  std::string problem;         // why there is no plan; "" where there is one
};

// Describes the graph of a key to cuDNN, and makes the plan of the engine that is asked for.
class convolution_plan_maker {
 public:
  explicit convolution_plan_maker(const convolution_graph_key& key)
      : key_(key), chain_(read_chain(key.chain, key.operand_is_of_channels.size())) {}

  convolution_plan make() {
    try {
      describe();
      choose_engine();
    } catch (const cudnn_failure& e) {
      made_.problem = e.what();
    }
    return std::move(made_);
  }

 private:
  enum class source { convolution, node, operand, number };
  struct value {
    source from = source::convolution;
    std::size_t index = 0;
  };
  struct node {
    int mode = 0;
    value x, b;
    bool has_b = false;
    double low = 0, high = std::numeric_limits<float>::max(), slope = 0, alpha = 1;
  };
  static constexpr int64_t input_id = 1, weight_id = 2, result_id = 3, first_operand = 10, first_number = 100,
                           first_virtual = 200;

  std::vector<int64_t> strides_of(const std::vector<int64_t>& sizes) const {
    std::vector<int64_t> out(sizes.size());
    int64_t size = 1;
    const auto put = [&](std::size_t d) {
      out[d] = size;
      size *= sizes[d];
    };
    if (key_.channels_last) put(1);
    for (std::size_t d = sizes.size(); d-- > 2;)
      put(d);
    if (!key_.channels_last) put(1);
    put(0);
    return out;
  }

  int data_type() const {
    return key_.type == at::kHalf       ? cudnn_code::of_half
           : key_.type == at::kBFloat16 ? cudnn_code::of_bfloat16
                                        : cudnn_code::of_float;
  }

  enum class tensor_kind { memory, intermediate, number };
  // In the plan's parts.
  const cudnn_descriptor& tensor(int64_t id, const std::vector<int64_t>& sizes, tensor_kind kind) {
    using namespace cudnn_code;
    cudnn_descriptor t(tensor_descriptor);
    t.set_code(tensor_data_type, data_type_type, kind == tensor_kind::memory ? data_type() : of_float);
    t.set_integers(tensor_dimensions, sizes);
    t.set_integers(tensor_strides, strides_of(sizes));
    t.set_integer(tensor_id, id);
    t.set_integer(tensor_alignment, kind == tensor_kind::memory ? key_.alignment : 16);
    if (kind == tensor_kind::intermediate) t.set_flag(tensor_is_virtual, true);
    if (kind == tensor_kind::number) t.set_flag(tensor_is_by_value, true);
    t.finalize();
    return keep(std::move(t));
  }
  const cudnn_descriptor& keep(cudnn_descriptor d) {
    made_.parts.push_back(std::move(d));
    return made_.parts.back();
  }

  // ---- the chain as nodes ----

  value add_node(int mode, value x) {
    node n;
    n.mode = mode;
    n.x = x;
    nodes_.push_back(n);
    return {source::node, nodes_.size() - 1};
  }
  value add_node(int mode, value x, value b) {
    const value made = add_node(mode, x);
    nodes_.back().b = b;
    nodes_.back().has_b = true;
    return made;
  }
  value number(double of) {
    made_.numbers.push_back(static_cast<float>(of));
    return {source::number, made_.numbers.size() - 1};
  }
  value clipped(value x, double low, double high) {
    const value made = add_node(cudnn_code::relu, x);
    constexpr double most = std::numeric_limits<float>::max();  // an infinite limit is none
    nodes_.back().low = std::max(low, -most);
    nodes_.back().high = std::min(high, most);
    return made;
  }
  value added(const chain_link& link, value x) {
    using namespace cudnn_code;
    switch (link.what) {
      case chain_function::add:
        return add_node(add, x, {source::operand, link.operand});
      case chain_function::multiply:
        return add_node(multiply, x, {source::operand, link.operand});
      case chain_function::shift:
        return add_node(add, x, number(link.first));
      case chain_function::scale:
        return add_node(multiply, x, number(link.first));
      case chain_function::relu:
        return add_node(relu, x);
      case chain_function::leaky_relu: {
        const value made = add_node(relu, x);
        nodes_.back().slope = link.first;
        return made;
      }
      case chain_function::clamp:
        return clipped(x, link.first, link.second);
      case chain_function::elu: {
        const value made = add_node(elu, x);
        nodes_.back().alpha = link.first;
        return made;
      }
      case chain_function::sigmoid:
        return add_node(sigmoid, x);
      case chain_function::tanh:
        return add_node(tanh, x);
      case chain_function::silu:
        return add_node(swish, x);
      case chain_function::gelu:
        return add_node(gelu, x);
      case chain_function::gelu_tanh:
        return add_node(gelu_tanh, x);
      case chain_function::softplus:
        return add_node(softplus, x);
      case chain_function::mish:
        return add_node(multiply, x, add_node(tanh, add_node(softplus, x)));
      case chain_function::hardsigmoid:
        return add_node(multiply, clipped(add_node(add, x, number(3)), 0, 6), number(1.0 / 6));
      case chain_function::hardswish:
        return add_node(multiply, add_node(multiply, x, clipped(add_node(add, x, number(3)), 0, 6)), number(1.0 / 6));
    }
    throw cudnn_failure("a chain has a function without a node");
  }

  // ---- the graph ----

  void describe() {
    if (!chain_.problem.empty()) throw cudnn_failure(chain_.problem);
    value last;
    for (const chain_link& link : chain_.links)
      last = added(link, last);
    made_.ids = {input_id, weight_id, result_id};
    std::vector<const cudnn_descriptor*> operands, numbers, results;
    const std::vector<int64_t> one(key_.result.size(), 1);
    std::vector<int64_t> of_channels = one;
    of_channels[1] = key_.result[1];
    for (std::size_t i = 0; i < key_.operand_is_of_channels.size(); ++i) {
      made_.ids.push_back(first_operand + static_cast<int64_t>(i));
      operands.push_back(
          &tensor(made_.ids.back(), key_.operand_is_of_channels[i] ? of_channels : key_.result, tensor_kind::memory));
    }
    for (std::size_t i = 0; i < made_.numbers.size(); ++i) {
      made_.ids.push_back(first_number + static_cast<int64_t>(i));
      numbers.push_back(&tensor(made_.ids.back(), one, tensor_kind::number));
    }
    for (std::size_t i = 0; i <= nodes_.size(); ++i)  // of the convolution, and of each node
      results.push_back(i == nodes_.size()
                            ? &tensor(result_id, key_.result, tensor_kind::memory)
                            : &tensor(first_virtual + static_cast<int64_t>(i), key_.result, tensor_kind::intermediate));
    std::vector<void*> operations = {convolution_into(*results[0]).get()};
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto tensor_of = [&](value v) -> const cudnn_descriptor& {
        if (v.from == source::operand) return *operands[v.index];
        if (v.from == source::number) return *numbers[v.index];
        return v.from == source::node ? *results[v.index + 1] : *results[0];
      };
      const node& n = nodes_[i];
      operations.push_back(operation_of(n, tensor_of(n.x), n.has_b ? &tensor_of(n.b) : nullptr, *results[i + 1]).get());
    }
    cudnn_descriptor graph(cudnn_code::graph_descriptor);
    graph.set_handle(cudnn_code::graph_handle, handle());
    graph.set(cudnn_code::graph_operations, cudnn_code::descriptor_type, static_cast<int64_t>(operations.size()),
              operations.data());
    graph.finalize();
    graph_ = &keep(std::move(graph));
  }

  static void* handle() { return at::native::getCudnnHandle(); }

  const cudnn_descriptor& convolution_into(const cudnn_descriptor& result) {
    using namespace cudnn_code;
    cudnn_descriptor how(convolution_descriptor);
    how.set_integer(convolution_dimensions, static_cast<int64_t>(key_.stride.size()));
    how.set_code(convolution_precision, data_type_type, of_float);
    how.set_code(convolution_mode, convolution_mode_type, cross_correlation);
    how.set_integers(convolution_pre_paddings, key_.padding);
    how.set_integers(convolution_post_paddings, key_.padding);
    how.set_integers(convolution_strides, key_.stride);
    how.set_integers(convolution_dilations, key_.dilation);
    how.finalize();
    const cudnn_descriptor& convolution = keep(std::move(how));
    const cudnn_descriptor& input = tensor(input_id, key_.input, tensor_kind::memory);
    const cudnn_descriptor& weight = tensor(weight_id, key_.weight, tensor_kind::memory);
    const bool t = key_.transposed;  // the derivative of a convolution by its input
    cudnn_descriptor made(t ? convolution_data_operation : convolution_operation);
    made.set_descriptor(t ? data_convolution : forward_convolution, convolution);
    made.set_descriptor(t ? data_dy : forward_x, input);
    made.set_descriptor(t ? data_w : forward_w, weight);
    made.set_descriptor(t ? data_dx : forward_y, result);
    made.set_float(t ? data_alpha : forward_alpha, 1);
    made.set_float(t ? data_beta : forward_beta, 0);
    made.finalize();
    return keep(std::move(made));
  }

  const cudnn_descriptor& operation_of(const node& n, const cudnn_descriptor& x, const cudnn_descriptor* b,
                                       const cudnn_descriptor& y) {
    using namespace cudnn_code;
    cudnn_descriptor how(cudnn_code::pointwise_descriptor);
    how.set_code(pointwise_mode, pointwise_mode_type, n.mode);
    how.set_code(pointwise_precision, data_type_type, of_float);
    if (n.mode == relu) {
      how.set_code(pointwise_nan_propagation, nan_propagation_type, propagates_nan);
      how.set_real(relu_lower_clip, n.low);
      how.set_real(relu_upper_clip, n.high);
      how.set_real(relu_slope, n.slope);
    }
    if (n.mode == elu) how.set_real(elu_alpha, n.alpha);
    if (n.mode == softplus) how.set_real(softplus_beta, n.alpha);
    if (n.mode == swish) how.set_real(swish_beta, n.alpha);
    how.finalize();
    const cudnn_descriptor& function = keep(std::move(how));
    cudnn_descriptor made(cudnn_code::pointwise_operation);
    made.set_descriptor(pointwise_descriptor_of, function);
    made.set_descriptor(pointwise_x, x);
    if (b != nullptr) made.set_descriptor(pointwise_b, *b);
    made.set_descriptor(pointwise_y, y);
    made.finalize();
    return keep(std::move(made));
  }

  // ---- the engine ----

  // As PyTorch's own convolutions choose: no engine rounds float32 to TF32 unless that is allowed.
  bool is_allowed(const cudnn_descriptor& config, std::string& name) const {
    using namespace cudnn_code;
    cudnn_descriptor engine(engine_descriptor);
    void* pointer = engine.get();
    (void)config.get(config_engine, descriptor_type, 1, &pointer);
    int64_t index = 0;
    (void)engine.get(engine_index, int64_type, 1, &index);
    int notes[16] = {};
    const int64_t count = std::min<int64_t>(16, engine.get(engine_notes, numerical_note_type, 16, notes));
    const auto has = [&](int note) { return std::find(notes, notes + count, note) != notes + count; };
    name = "engine " + std::to_string(index) + knobs_of(config);
    if (key_.deterministic && has(is_nondeterministic)) return false;
    if (key_.type != at::kFloat) return true;
    return !has(converts_inputs_down) && (key_.tf32 || !has(uses_tensor_cores));
  }

  static std::string knobs_of(const cudnn_descriptor& config) {
    using namespace cudnn_code;
    constexpr int64_t most_knobs = 64;  // how many there are it says only when it writes them
    std::string text;
    for (const auto& knob : config.get_descriptors(config_knobs, knob_choice_descriptor, most_knobs)) {
      int type = 0;
      int64_t value = 0;
      (void)knob.get(knob_type, knob_type_type, 1, &type);
      (void)knob.get(knob_value, int64_type, 1, &value);
      text += (text.empty() ? " (" : ", ") + std::to_string(type) + ": " + std::to_string(value);
    }
    return text.empty() ? text : text + ")";
  }

  // What the heuristics propose, in their order.
  std::vector<cudnn_descriptor> configs() const {
    using namespace cudnn_code;
    std::vector<cudnn_descriptor> all;
    for (const int mode : {heuristics_a, heuristics_fallback}) {
      try {
        cudnn_descriptor asked(heuristics_descriptor);
        asked.set_descriptor(heuristics_graph, *graph_);
        asked.set_code(heuristics_mode, heuristics_mode_type, mode);
        asked.finalize();
        for (auto& each :
             asked.get_descriptors(heuristics_results, engine_config_descriptor, asked.count(heuristics_results)))
          all.push_back(std::move(each));
      } catch (const cudnn_failure&) {
        // Where one kind of heuristics knows no engine for the graph, the other kind may.
      }
    }
    return all;
  }

  void choose_engine() {
    int64_t allowed = 0;
    for (auto& config : configs()) {
      std::string name;
      if (!is_allowed(config, name) || allowed++ != key_.engine) continue;
      made_.engine = name;
      cudnn_descriptor plan(cudnn_code::plan_descriptor);
      plan.set_handle(cudnn_code::plan_handle, handle());
      plan.set_descriptor(cudnn_code::plan_config, config);
      plan.finalize();
      (void)plan.get(cudnn_code::plan_workspace_bytes, cudnn_code::int64_type, 1, &made_.workspace_bytes);
      keep(std::move(config));
      made_.plan = std::move(plan);
      return;
    }
    made_.problem = "there are " + std::to_string(allowed);
  }

  convolution_graph_key key_;
  convolution_chain chain_;
  std::vector<node> nodes_;
  convolution_plan made_;
  const cudnn_descriptor* graph_ = nullptr;
};

}  // namespace cudal1
