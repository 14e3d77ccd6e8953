// Types and numbers as C writes them.
#pragma once

#include <string>

#include "sandbox/program/types.hpp"

namespace cudal1 {

// C's name of an element type; "" where kernels do not use it yet.
std::string c_type(dtype t);
// A literal of exactly this value.
std::string c_literal(double v, dtype type);

}  // namespace cudal1
