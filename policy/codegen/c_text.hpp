// Types and literals in C.
#pragma once

#include <string>

#include "sandbox/program/types.hpp"

namespace cudal1 {

// The C name of an element type; "" where kernels do not support it yet.
std::string c_type(dtype t);
// The C literal of a value of this type.
std::string c_literal(double v, dtype type);

}  // namespace cudal1
