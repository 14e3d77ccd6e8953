// Steps that run once, at set-up, and read weights only: how moves add them to a graph.
#pragma once

#include <string>

#include "policy/graph/constant_expression.hpp"
#include "policy/graph/graph.hpp"
#include "policy/graph/linear_proofs.hpp"

namespace cudal1 {

// Adds a step with one result, which is named `name` or as near to that as is free, unless there is one that computes
// the same; returns the result's name.
std::string add_setup_step(graph& g, std::string op, decltype(aten_step::args) args, const std::string& name,
                           const tensor_type& type);
// The value in another type, contiguous.
std::string add_conversion(graph& g, const std::string& value, dtype to);
// The expression, which is not just a number, in float64 with one dimension: one number, or one a feature. Its weights
// have one number each, or as many as the others.
std::string add_expression(graph& g, const constant_expression& e);

// The layer's weight times the scale of each feature, rounded to its type once; the weight itself where that is 1.
std::string scaled_weight(graph& g, const scaled_layer_proof& proof);
// The bias of the scaled and shifted layer, in the weight's type; "" if it has none.
std::string shifted_bias(graph& g, const scaled_layer_proof& proof, int64_t features);

}  // namespace cudal1
