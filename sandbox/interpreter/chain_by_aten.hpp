// A convolution with a chain of functions by ATen's operators: what `cudal1::convolution_graph` means. Includes ATen.
#pragma once

#include <string_view>

#include <ATen/core/Tensor.h>

namespace cudal1 {

struct convolution_arguments {
  at::IntArrayRef stride, padding, dilation;
  bool transposed = false;
  at::IntArrayRef output_padding;
  int64_t groups = 1;
};

// Throws ATen's exceptions, and c10::Error where the chain is none.
at::Tensor convolution_graph_by_aten(const at::Tensor& input, const at::Tensor& weight, at::TensorList operands,
                                     const convolution_arguments& how, std::string_view chain);

}  // namespace cudal1
