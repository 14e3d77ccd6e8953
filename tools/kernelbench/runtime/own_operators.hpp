namespace {

// Operators of cudal1 beside PyTorch's, with what the code of a step needs of one.
namespace own_operators {

struct convolution_graph {
  using schema = at::Tensor(const at::Tensor&, const at::Tensor&, at::TensorList, at::IntArrayRef, at::IntArrayRef,
                            at::IntArrayRef, bool, at::IntArrayRef, int64_t, c10::string_view, int64_t);
  static at::Tensor call(const at::Tensor& input, const at::Tensor& weight, at::TensorList operands,
                         at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                         at::IntArrayRef output_padding, int64_t groups, c10::string_view graph, int64_t engine) {
    return convolution_graph_on_gpu(input, weight, operands, stride, padding, dilation, transposed, output_padding,
                                    groups, graph, engine);
  }
};

}  // namespace own_operators

}  // namespace
