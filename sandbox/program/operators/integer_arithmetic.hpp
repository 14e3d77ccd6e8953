// What a program makes of inputs and weights that are small integers.
#pragma once

#include "sandbox/program/check.hpp"

namespace cudal1 {

enum class integer_arithmetic {
  other,   // it divides, rounds, or does what is not linear
  linear,  // sums, averages, products and convolutions, and what selects or moves elements
  exact    // the same without averages, divisions and convolutions: integers of integers, in any order of the sums
           // (convolutions may go by Winograd's algorithm, whose factors are no integers)
};

// Rectifiers, clamps and choices of the largest or smallest count as selecting.
integer_arithmetic integer_arithmetic_of(const checked_program& p);

}  // namespace cudal1
