// The operator `cudal1::convolution_graph` on a GPU: plans by their keys, and calls. Exported KernelBench files contain
// the text of this header (tools/kernelbench): C++17 that needs only the standard library, CUDA and PyTorch.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/cuda/EmptyTensor.h>
#include <cuda_runtime_api.h>

#include "sandbox/cuda/runtime/convolution_plan.hpp"

namespace cudal1 {

// While it lives, this thread may load kernels although a stream is being captured.
class capture_that_allows_loading {
 public:
  capture_that_allows_loading() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~capture_that_allows_loading() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  capture_that_allows_loading(const capture_that_allows_loading&) = delete;
  capture_that_allows_loading& operator=(const capture_that_allows_loading&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// The plans of the process, which stay: a call that is captured as a CUDA graph finds the plan of a call before it.
class convolution_plans {
 public:
  static const convolution_plan& find(int device, const convolution_graph_key& key) {
    static auto* const all = new convolution_plans;
    const std::lock_guard<std::mutex> lock(all->mutex_);
    auto& found = all->plans_[device][key];
    if (found) return *found;
    const capture_that_allows_loading here;
    found = std::make_unique<convolution_plan>(convolution_plan_maker(key).make());
    return *found;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::map<convolution_graph_key, std::unique_ptr<convolution_plan>>> plans_;
};

inline int64_t common_alignment(const std::vector<void*>& addresses) {
  uintptr_t bits = 16;
  for (const void* const address : addresses)
    bits |= reinterpret_cast<uintptr_t>(address);
  return static_cast<int64_t>(bits & (~bits + 1));
}

inline std::vector<int64_t> convolution_graph_sizes(const at::Tensor& input, const at::Tensor& weight,
                                                    at::IntArrayRef stride, at::IntArrayRef padding,
                                                    at::IntArrayRef dilation, bool transposed,
                                                    at::IntArrayRef output_padding, int64_t groups) {
  std::vector<int64_t> out = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
  for (std::size_t d = 0; d < stride.size(); ++d) {
    const auto at = static_cast<int64_t>(d) + 2;
    const int64_t reach = dilation[d] * (weight.size(at) - 1) + 1;
    out.push_back(transposed ? (input.size(at) - 1) * stride[d] - 2 * padding[d] + reach + output_padding[d]
                             : (input.size(at) + 2 * padding[d] - reach) / stride[d] + 1);
  }
  return out;
}

// One call: the key of its plan, and its tensors in the order of the plan's ids, dense and in one order of dimensions.
struct convolution_graph_call {
  convolution_graph_key key;
  std::vector<at::Tensor> tensors;  // input, weight, result, operands

  std::vector<void*> addresses() const {
    std::vector<void*> out;
    for (const at::Tensor& t : tensors)
      out.push_back(const_cast<void*>(t.const_data_ptr()));
    return out;
  }
};

inline convolution_graph_call prepare_convolution_graph(const at::Tensor& input, const at::Tensor& weight,
                                                        at::TensorList operands, convolution_graph_key key,
                                                        at::IntArrayRef output_padding, int64_t groups) {
  key.channels_last = input.suggest_memory_format() != at::MemoryFormat::Contiguous ||
                      weight.suggest_memory_format() != at::MemoryFormat::Contiguous;
  const auto format = !key.channels_last ? at::MemoryFormat::Contiguous
                      : input.dim() == 5 ? at::MemoryFormat::ChannelsLast3d
                                         : at::MemoryFormat::ChannelsLast;
  key.type = input.scalar_type();
  key.tf32 = at::globalContext().allowTF32CuDNN();
  key.deterministic = at::globalContext().deterministicCuDNN();
  key.input = input.sizes().vec();
  key.weight = weight.sizes().vec();
  key.result = convolution_graph_sizes(input, weight, key.stride, key.padding, key.dilation, key.transposed,
                                       output_padding, groups);
  std::vector<at::Tensor> tensors = {input.contiguous(format), weight.contiguous(format),
                                     at::Tensor(at::detail::empty_cuda(key.result, key.type, input.device(), format))};
  for (const at::Tensor& operand : operands) {
    key.operand_is_of_channels.push_back(operand.dim() == 1);
    tensors.push_back(operand.contiguous(operand.dim() == 1 ? at::MemoryFormat::Contiguous : format));
  }
  convolution_graph_call call{std::move(key), std::move(tensors)};
  call.key.alignment = common_alignment(call.addresses());
  return call;
}

inline void execute(const convolution_plan& plan, std::vector<void*> addresses, at::Device device) {
  for (const float& number : plan.numbers)
    addresses.push_back(const_cast<float*>(&number));
  at::Tensor workspace;
  if (plan.workspace_bytes > 0)
    workspace = at::Tensor(at::detail::empty_cuda({plan.workspace_bytes}, at::kByte, device, std::nullopt));
  void* const scratch = workspace.defined() ? workspace.mutable_data_ptr() : nullptr;
  cudnn_descriptor pack(cudnn_code::variant_pack_descriptor);
  pack.set_integers(cudnn_code::pack_ids, plan.ids);
  pack.set(cudnn_code::pack_pointers, cudnn_code::pointer_type, static_cast<int64_t>(addresses.size()),
           addresses.data());
  pack.set(cudnn_code::pack_workspace, cudnn_code::pointer_type, 1, &scratch);
  pack.finalize();
  const auto& api = cudnn_functions::find();
  api.check(api.execute(at::native::getCudnnHandle(), plan.plan.get(), pack.get()), "cudnnBackendExecute");
}

// The operator `cudal1::convolution_graph` on a GPU. Its arguments have passed the operator's rule. Throws
// engine_missing where cuDNN has no such engine.
inline at::Tensor convolution_graph_on_gpu(const at::Tensor& input, const at::Tensor& weight, at::TensorList operands,
                                           at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
                                           bool transposed, at::IntArrayRef output_padding, int64_t groups,
                                           c10::string_view graph, int64_t engine) {
  if (input.scalar_type() == at::kDouble)
    throw engine_missing(std::string("cuDNN ") + no_engine_words + " for graphs of float64");
  convolution_graph_key key;
  key.transposed = transposed;
  key.stride = stride.vec();
  key.padding = padding.vec();
  key.dilation = dilation.vec();
  key.chain = std::string(graph);
  key.engine = engine;
  const auto call = prepare_convolution_graph(input, weight, operands, std::move(key), output_padding, groups);
  const convolution_plan& plan = convolution_plans::find(input.device().index(), call.key);
  if (!plan.problem.empty())
    throw engine_missing("cuDNN " + cudnn_functions::find().version_text() + " " + no_engine_words + " " +
                         std::to_string(engine) + " for this graph: " + plan.problem);
  execute(plan, call.addresses(), input.device());
  return call.tensors[2];
}

}  // namespace cudal1
