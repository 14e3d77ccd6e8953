// The operators of ATen that exist on a GPU alone, as PyTorch's documentation has them, so that programs for one can be
// judged on the CPU.
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ops/add.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <torch/library.h>

namespace {

using optional_tensor = std::optional<at::Tensor>;

at::Tensor convolved(const at::Tensor& self, const at::Tensor& weight, const optional_tensor& bias,
                     c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                     c10::SymInt groups) {
  const std::vector<c10::SymInt> none(stride.size(), 0);
  return at::convolution_symint(self, weight, bias, stride, padding, dilation, false, none, std::move(groups));
}

at::Tensor convolution_relu(const at::Tensor& self, const at::Tensor& weight, const optional_tensor& bias,
                            c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                            c10::SymInt groups) {
  return at::relu(convolved(self, weight, bias, stride, padding, dilation, std::move(groups)));
}

at::Tensor convolution_add_relu(const at::Tensor& self, const at::Tensor& weight, const at::Tensor& z,
                                const std::optional<at::Scalar>& alpha, const optional_tensor& bias,
                                c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
                                c10::SymInt groups) {
  return at::relu(
      at::add(convolved(self, weight, bias, stride, padding, dilation, std::move(groups)), z, alpha.value_or(1)));
}

at::Tensor mm_of_type(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  return at::mm(self.to(out_dtype), mat2.to(out_dtype));
}

at::Tensor bmm_of_type(const at::Tensor& self, const at::Tensor& mat2, at::ScalarType out_dtype) {
  return at::bmm(self.to(out_dtype), mat2.to(out_dtype));
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("cudnn_convolution_relu", convolution_relu);
  m.impl("cudnn_convolution_add_relu", convolution_add_relu);
  m.impl("mm.dtype", mm_of_type);
  m.impl("bmm.dtype", bmm_of_type);
}

}  // namespace
