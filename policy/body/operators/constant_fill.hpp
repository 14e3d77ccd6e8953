// A value whose elements are all one number, which was computed at set-up.
#pragma once

#include "policy/body/body_operators.hpp"

namespace cudal1 {

// `number`: a setup value of one element.
operator_use constant_fill(const graph& g, const std::string& number);
body_operator constant_fill_operator();

}  // namespace cudal1
