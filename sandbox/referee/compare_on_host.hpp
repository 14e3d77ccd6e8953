// Compares an output of a variant with the referee's expected outputs, element by element. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sandbox/referee/expected_statistics.hpp"

namespace cudal1 {

// Flat tensors of one shape. `type` is that of `value` and `eager`; `exact_type` that of `exact`: float64 where `type`
// is floating, else the same.
struct compared_output {
  dtype type = dtype::float32, exact_type = dtype::float64;
  int64_t elements = 0;
  const std::byte *value = nullptr, *eager = nullptr, *exact = nullptr;
};

// The statistics of eager and exact alone; `value` is not looked at. On the host eager is strict float32 as it ships.
expected_statistics expected_statistics_of(const compared_output& output, draw_kind kind, const tolerances& plan);

// All fields of output_check but the name and the type problem. The errors leave out the elements where one of
// the three is not finite; those are counted as mask mismatches where the variant's class differs from the eager one's
// and the variant is not near the exact one.
output_check compare_output(const compared_output& output, const expected_statistics& statistics);

// `eager` of `moved` is eager's output on moved inputs: raises each element of `largest` to how far it is from the
// exact one. Elements that are not finite are left.
void add_moved_output(const compared_output& moved, std::span<float> largest);
// Counts again in `check` which elements are outside, where each may also be off by its rounding_allowance, and raises
// eager's errors to those on the moved inputs where some were outside or few elements are not 0. Of half types `moved`
// is empty, and an element may be as far from the exact one as the tail of eager's own errors reaches. Against eager
// alone nothing is allowed to elements.
void allow_rounding(const compared_output& output, const expected_statistics& statistics, draw_kind kind,
                    std::span<const float> moved, output_check& check);

}  // namespace cudal1
