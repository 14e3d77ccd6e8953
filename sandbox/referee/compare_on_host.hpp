// Compares an output of a variant with the referee's expected outputs, element by element. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sandbox/evaluation.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

// Flat tensors of one shape. `type` is that of `value` and `eager`; `exact_type` that of `exact`: float64 where `type`
// is floating, else the same.
struct compared_output {
  dtype type = dtype::float32, exact_type = dtype::float64;
  int64_t elements = 0;
  const std::byte *value = nullptr, *eager = nullptr, *exact = nullptr;
};

// All members of output_check but the name and the type problem. Integers and bools must be equal: tolerances apply to
// floating types. The errors exclude elements where one of the three values is not finite; such elements are mask
// mismatches if the variant's class differs from eager's.
output_check compare_output(const compared_output& output, const tolerance& close, const tolerance& loose);

}  // namespace cudal1
