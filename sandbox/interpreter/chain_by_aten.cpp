#include "sandbox/interpreter/chain_by_aten.hpp"

#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/tanh.h>

#include "sandbox/program/operators/convolution_chain.hpp"

namespace cudal1 {

namespace {

// One number a channel is the same for all of its elements.
at::Tensor spread(const at::Tensor& operand, const at::Tensor& over) {
  if (operand.dim() == over.dim()) return operand;
  std::vector<int64_t> shape(static_cast<std::size_t>(over.dim()), 1);
  shape[1] = operand.numel();
  return operand.view(shape);
}

at::Tensor applied(const chain_link& link, const at::Tensor& x, at::TensorList operands) {
  switch (link.what) {
    case chain_function::add:
      return at::add(x, spread(operands[link.operand], x));
    case chain_function::multiply:
      return at::mul(x, spread(operands[link.operand], x));
    case chain_function::shift:
      return at::add(x, link.first);
    case chain_function::scale:
      return at::mul(x, link.first);
    case chain_function::relu:
      return at::relu(x);
    case chain_function::leaky_relu:
      return at::leaky_relu(x, link.first);
    case chain_function::clamp:
      return at::clamp(x, link.first, link.second);
    case chain_function::elu:
      return at::elu(x, link.first);
    case chain_function::sigmoid:
      return at::sigmoid(x);
    case chain_function::tanh:
      return at::tanh(x);
    case chain_function::silu:
      return at::silu(x);
    case chain_function::gelu:
      return at::gelu(x);
    case chain_function::gelu_tanh:
      return at::gelu(x, "tanh");
    case chain_function::softplus:
      return at::softplus(x);
    case chain_function::mish:
      return at::mish(x);
    case chain_function::hardsigmoid:
      return at::hardsigmoid(x);
    case chain_function::hardswish:
      return at::hardswish(x);
  }
  TORCH_CHECK(false, "a chain has a function that ATen lacks");
}

}  // namespace

at::Tensor convolution_graph_by_aten(const at::Tensor& input, const at::Tensor& weight, at::TensorList operands,
                                     const convolution_arguments& how, std::string_view chain) {
  const convolution_chain links = read_chain(chain, operands.size());
  TORCH_CHECK(links.problem.empty(), links.problem);
  at::Tensor x = at::convolution(input, weight, {}, how.stride, how.padding, how.dilation, how.transposed,
                                 how.output_padding, how.groups);
  for (const chain_link& link : links.links)
    x = applied(link, x, operands);
  return x;
}

}  // namespace cudal1
