#include "sandbox/interpreter/own_operators.hpp"

#include <torch/library.h>

#include "sandbox/interpreter/chain_by_aten.hpp"
#include "sandbox/program/operators/convolution_chain.hpp"

namespace cudal1 {

namespace {

at::Tensor convolution_graph(const at::Tensor& input, const at::Tensor& weight, at::TensorList operands,
                             at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                             at::IntArrayRef output_padding, int64_t groups, c10::string_view graph, int64_t) {
  return convolution_graph_by_aten(input, weight, operands,
                                   {stride, padding, dilation, transposed, output_padding, groups}, graph);
}

}  // namespace

void define_own_operators() {
  // Never destroyed: its operators end with it.
  static auto* const library = [] {
    auto* made = new torch::Library(torch::Library::FRAGMENT, "cudal1", std::nullopt, __FILE__, __LINE__);
    made->def(convolution_graph_schema);
    made->impl("convolution_graph",
               torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(convolution_graph)));
    return made;
  }();
  (void)library;
}

}  // namespace cudal1
