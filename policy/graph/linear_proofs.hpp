// What can be proved about sums and products that a later step undoes or could do itself. As in proofs.hpp, a proof is
// a sentence.
#pragma once

#include <string>
#include <vector>

#include "policy/graph/constant_expression.hpp"
#include "policy/graph/proofs.hpp"

namespace cudal1 {

// The step adds or subtracts what is the same for all elements of each row that its readers, all of them softmaxes or
// norms, shift to a mean or maximum of their own. errc::invalid_argument with the reason where that is not so.
expected<drop_proof> prove_shift(const graph& g, const graph_step& s);

// A linear layer of a linear layer's result that nothing else reads, where one layer with the product of both weights
// takes fewer multiplications: W2 (W1 x + b1) + b2 = (W2 W1) x + (W2 b1 + b2).
struct composed_linear_proof {
  int first = -1;                                              // the step of the layer that is left out
  std::string values, first_weight, first_bias, weight, bias;  // "" for no bias
  std::string certificate;
};
expected<composed_linear_proof> prove_composed_linear(const graph& g, const graph_step& s);

// A linear layer or convolution whose features are scaled and shifted by numbers, weights or a batch norm with fixed
// statistics until this step, its result and what is between read by nothing else: the same layer with scaled weights
// and another bias.
struct scaled_layer_proof {
  int layer = -1;                  // the layer's step
  std::vector<int> scaling;        // the steps after it, this one last
  std::string weight, bias;        // the layer's operands; bias "" for none
  std::size_t feature_dim = 0;     // of the weight
  constant_pointer scale, offset;  // result = scale * layer + offset, with weights of one number or one a feature
  std::string certificate;
};
struct scaling_limits {
  bool bias_is_free = true;  // a convolution adds a bias without a pass of its own
  bool in_kernels = false;   // the steps after the layer may be in groups
  bool half_types = false;   // the layer may be of a half type, to which its scaled weights are rounded
};
expected<scaled_layer_proof> prove_scaled_layer(const graph& g, const graph_step& s, const scaling_limits& limits);

}  // namespace cudal1
