// A convolution with the ReLU that follows, and with what scales, shifts or is added to its result before, as one call
// of cuDNN, which does all that before it stores: with the channels last as fast as the convolution alone (H100, 64 to
// 64 channels, 10 x 224 x 224, float32: 172 us, where a pass for bias and ReLU takes 65 more).
#pragma once

#include "policy/graph/linear_proofs.hpp"
#include "policy/internal_operators/internal_operators.hpp"

namespace cudal1 {

struct activated_convolution_operands {
  int layer = -1;                             // the step of the convolution
  std::vector<int> left_out;                  // that step and those between it and the ReLU
  std::optional<scaled_layer_proof> scaling;  // how these scale and shift its channels
  std::string addend;                         // what is added to its elements; "" for none
};
// errc::invalid_argument with the reason where the step is not a ReLU of a convolution over two dimensions that is
// still a library call, with nothing between them but that, and nothing else that reads what is between.
expected<activated_convolution_operands> operands_of_activated_convolution(const graph& g, const graph_step& s);

// The operator with the weight and bias that are to be used; bias "" for none.
operator_use activated_convolution(const graph& g, const activated_convolution_operands& of, const std::string& weight,
                                   const std::string& bias);
internal_operator activated_convolution_operator();

}  // namespace cudal1
