// A sum over the features of a linear layer, without the layer: out[..., row] = factor * (values[row, :] . weights +
// offset).
#pragma once

#include "policy/body/body_operators.hpp"

namespace cudal1 {

// `weights` and `offset` are setup values: the sums of the layer's weight rows and of its bias; offset "" for none.
operator_use row_dot(const graph& g, const std::string& values, const std::string& weights, const std::string& offset,
                     double factor);
body_operator row_dot_operator();

}  // namespace cudal1
