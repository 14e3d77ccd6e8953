#include "sandbox/cuda/runtime/own_gpu_operators.hpp"

#include <torch/library.h>

#include "sandbox/cuda/runtime/convolution_on_gpu.hpp"
#include "sandbox/interpreter/chain_by_aten.hpp"
#include "sandbox/interpreter/own_operators.hpp"

namespace cudal1 {

namespace {

at::Tensor convolution_graph(const at::Tensor& input, const at::Tensor& weight, at::TensorList operands,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                             at::IntArrayRef output_padding, int64_t groups, c10::string_view graph, int64_t engine) {
  if (input.scalar_type() == at::kDouble)
    return convolution_graph_by_aten(input, weight, operands,
                                     {stride, padding, dilation, transposed, output_padding, groups}, graph);
  return convolution_graph_on_gpu(input, weight, operands, stride, padding, dilation, transposed, output_padding,
                                  groups, graph, engine);
}

}  // namespace

void use_own_gpu_operators() {
  define_own_operators();
  static auto* const library = [] {
    auto* made = new torch::Library(torch::Library::IMPL, "cudal1", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    made->impl("convolution_graph", TORCH_FN(convolution_graph));
    return made;
  }();
  (void)library;
}

std::string cudnn_version() {
  try {
    return cudnn_functions::find().version_text();
  } catch (const cudnn_failure&) {
    return "none";
  }
}

}  // namespace cudal1
