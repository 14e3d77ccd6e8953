// Losses and distances of rows: of two or three tensors of one shape.
#pragma once

#include "policy/body/body_builder.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

// The builder of one of the forms that combine several tensors.
operator_builder builder_of_loss(row_form form);
// The Kullback-Leibler divergence of each element of `result`.
expected<int> divergence(body_builder& b, const graph_step& s, const tensor_type& result);

}  // namespace cudal1
