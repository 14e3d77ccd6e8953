// Operators on the bits of integers, and on bool, as pointwise nodes.
#pragma once

#include "policy/body/body_builder.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

expected<void> build_bits(body_builder& b, const graph_step& s);
expected<void> build_complement(body_builder& b, const graph_step& s);
expected<void> build_shift(body_builder& b, const graph_step& s, kernel_form form);

}  // namespace cudal1
