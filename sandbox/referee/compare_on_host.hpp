// Compares an output of a variant with the referee's expected outputs, element by element. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sandbox/referee/expected_statistics.hpp"

namespace cudal1 {

// Flat tensors of one shape. `type` is that of `value` and `eager`; `exact_type` that of `exact`: float64 where `type`
// is floating, else the same.
struct compared_output {
  dtype type = dtype::float32, exact_type = dtype::float64;
  int64_t elements = 0;
  const std::byte *value = nullptr, *eager = nullptr, *exact = nullptr;
};

// Of eager and exact alone; `value` is not looked at. On the host eager is strict float32 as it ships.
expected_statistics expected_statistics_of(const compared_output& output, draw_kind kind, const tolerances& plan);

// All fields of output_check but the name and the type problem. The errors leave out the elements where one of
// the three is not finite; those are counted as mask mismatches where the variant's class differs from the eager one's.
output_check compare_output(const compared_output& output, const expected_statistics& statistics);

}  // namespace cudal1
