// What can be proved about sums and products that a later step undoes or could do itself. As in proofs.hpp, a proof is
// a sentence.
#pragma once

#include <string>

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

}  // namespace cudal1
