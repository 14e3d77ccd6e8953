// How the values are distributed that set-up computes from weights.
#pragma once

#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// A normal distribution with the mean and deviation that the value has where the weights that it comes from are
// independent of each other and as they are drawn; a constant where it has no deviation. It is a guess, good enough to
// try a part with: the whole is checked with the weights themselves.
draw_spec draw_of_setup_value(const graph& g, const std::string& value);

}  // namespace cudal1
