// What error is accepted of a float32 task whose products may be computed from operands in half precision
// (verification.tolerance = half).
#pragma once

#include <cstdint>

#include "sandbox/program/check.hpp"

namespace cudal1 {

// Steps with a float32 result in which operands could be rounded: products of matrices and convolutions; attention and
// recurrent layers are two.
int64_t count_products(const checked_program& p);

// The largest root mean square error of a float32 output, relative to the exact output's root mean square, that is
// accepted on a task's own draws: 2^-10 sqrt(products); 0 where there are none, since nothing else may be rounded. On
// other draws it may be 2^13 times eager's in strict float32, if that is more: where sums cancel, or functions between
// products grow, the rounding of operands to 2^-11 has as much more effect than that to 2^-24.
//
// An operand that is rounded to float16 or TF32 (11 bits of significand) is off by at most 2^-11 of it, and by 0.42 of
// that in the root mean square (over a logarithmically uniform significand). A product has two such operands, so that a
// sum of products in float32, of terms of either sign, is off by sqrt(2) 0.42 2^-11 = 0.3 2^-10 of its size, whatever
// its length. Errors of products behind each other are independent: their squares add up. The bound is 3.3 times that,
// for what between products makes errors larger, and less than half of the 2.4 2^-10 that bfloat16's 8 bits give.
double half_precision_error(const checked_program& p);

}  // namespace cudal1
