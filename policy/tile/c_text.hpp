// Types and literals in C.
#pragma once

#include <string>

#include "sandbox/program/types.hpp"

namespace cudal1 {

// The C type of a value of this type while a kernel computes with it; "" where no kernel does.
std::string c_type(dtype t);
// The type that kernels compute in with elements of this type: float32 for half types, int32 for narrow integers.
dtype computed_in(dtype t);
// The C type of elements in memory: half types are their bits.
std::string memory_type(dtype t);
// An element of this type as a value of the type that kernels compute in, and back: half types are rounded to nearest
// even.
std::string loaded(dtype t, const std::string& element);
std::string stored(dtype t, const std::string& value);
// What a number becomes as a value of this type, in the type that kernels compute in: what a narrow integer cannot hold
// wraps around.
std::string wrapped(dtype t, const std::string& number);
// The C literal of a value of this type; of a half type, the value rounded to it, as a float; of an integer type, the
// whole number wrapped to it.
std::string c_literal(double v, dtype type);

}  // namespace cudal1
