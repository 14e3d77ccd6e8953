// A convolution with the elementwise steps that follow as one call of cuDNN's graph API (`cudal1::convolution_graph`):
// what scales and shifts its channels, tensors that are added or multiplied, activations. Fast where one of cuDNN's
// engines does that before it stores, slow where it does so badly (H200, channels last: a SiLU behind 16 x 3 x 256 x
// 256 to 64 channels in float32 606 us, where the convolution takes 158; behind a volume of 3 channels in bfloat16 263,
// where it takes 679): a choice to measure.
#pragma once

#include "policy/graph/linear_proofs.hpp"
#include "policy/internal_operators/internal_operators.hpp"

namespace cudal1 {

struct convolution_graph_operands {
  int layer = -1;                             // the step of the convolution
  std::vector<int> left_out;                  // that step and those up to the last one, ascending
  std::optional<scaled_layer_proof> scaling;  // how the first of them scale and shift its channels
  // What the others do, in order: a function as a word of a chain (sandbox/program/operators/convolution_chain.hpp), or
  // its name alone where it has an operand.
  struct link {
    std::string function, operand;
  };
  std::vector<link> links;
};
// The longest chain that ends with this step. errc::invalid_argument with the reason where the step is none, or no
// convolution over two or three dimensions that is still a library call begins it, or something else reads what is
// between.
expected<convolution_graph_operands> operands_of_convolution_graph(const graph& g, const graph_step& s);

// errc::unsupported with the reason where cuDNN 9 has no engine for it on any GPU: orders of channels and strides for
// which none was found on an H200.
expected<void> check_library_has_engine(const graph& g, const convolution_graph_operands& of);

// The operator with the weight and bias that are to be used; bias "" for none. `engine`: its number in the order of
// cuDNN's heuristics.
operator_use convolution_graph(const graph& g, const convolution_graph_operands& of, const std::string& weight,
                               const std::string& bias, int64_t engine);
internal_operator convolution_graph_operator();

}  // namespace cudal1
