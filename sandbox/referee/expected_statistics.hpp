// What the expected outputs of a draw are among themselves, and what gate 2 allows a variant there because of that: the
// same on every device, computed once a draw.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

struct tolerances {
  tolerance close, loose{1e-2, 1e-2};
  // The closer one for all but half types, and against eager alone: an output nearer to the exact one has no more room.
  bool eager_alone = false;
  bool sized = false;  // as in check_plan
  bool operator==(const tolerances& o) const {
    return eager_alone == o.eager_alone && sized == o.sized && close.absolute == o.close.absolute &&
           close.relative == o.close.relative && loose.absolute == o.loose.absolute &&
           loose.relative == o.loose.relative;
  }
};

// What KernelBench's evaluator allows an output of that type, against eager alone; integers and flags must be equal.
tolerance kernelbench_tolerance(dtype type);

// Gate 2's tolerances on a draw of that kind, from those of the plan. `size`: root mean square of the exact output.
//   declared         the plan's own, as KernelBench has them; against eager alone, or grown as on the other kinds, if
//                    the plan says so
//   other kinds      the absolute term is that of an output of size 1, so it grows with `size`: else products of inputs
//                    ten times as large would be refused for elements near zero. It does not shrink below size 1: what
//                    is left of a cancellation (a loss near 0) has the absolute error of what cancelled.
//   small_integers   equal, where eager equals the exact output; else the looser tolerance of the other kinds. As the
//                    other kinds where the plan's are sized, since operands are rounded then
// Integers and flags must be equal everywhere.
tolerances tolerances_on(draw_kind kind, dtype type, double size, const tolerances& plan);

struct expected_statistics {
  tolerances allowed;                        // on this draw
  int64_t outside = 0, outside_loose = 0;    // elements of the exact output outside of those, against eager as shipped
  double mean = 0, size = 0, deviation = 0;  // of the exact output; `size`: root mean square
  double compared = 0;                       // elements of which eager and the exact output are finite
  double error = 0, signal_error = 0;        // of eager as shipped
  double strict_error = 0, strict_signal_error = 0;  // of strict float32 eager
  int64_t strict_outside = 0;                        // of it against eager as shipped, at the closer tolerance

  // Whether a variant's output is judged by the looser tolerance: half types, and where eager's own error, or how far
  // TensorFloat-32 takes it from strict float32, is beyond the closer one (unless eager alone counts).
  bool is_loose(dtype type) const;
  tolerance within(dtype type) const { return is_loose(type) ? allowed.loose : allowed.close; }
  // What a check of an output says of the expected one.
  void describe(dtype type, output_check& check) const;
  // Raises eager's errors in a check to what eager has on moved inputs, relative to the exact output.
  void raise_errors(double moved, draw_kind kind, output_check& check) const;
};

// By how much more an element may be off because of rounding, where eager on moved inputs was at most `moved` off.
// `expected`: the element of eager on the inputs as they are.
double rounding_allowance(double moved, double expected, double size, draw_kind kind);

// So few elements that eager's own error on them may be small by chance.
inline constexpr int64_t few_elements = 32;
bool has_few_elements(const tensor_type& type);
// Whether what gate 2, 3 or 4 has against an output may be a matter of rounding: sums that cancel at few elements, an
// output of few, on which eager's own error may be small by chance, or one whose error is beyond what eager's allows:
// of that allow_rounding looks whether few elements are not 0.
bool may_be_rounding(const output_check& check, const tensor_type& type);
// How many consecutive elements of a flat tensor move the same way, one run each: rounding in sums is shared by their
// terms, of a few or of all.
inline constexpr std::array<int64_t, 5> moved_together{1, 8, 64, 512, std::numeric_limits<int64_t>::max()};
// By how much of its size a float moves to a neighbour: 2^-23 for float32.
double unit_in_last_place(dtype type);

// Over the elements of which eager and the exact output are finite.
struct expected_sums {
  double count = 0, eager_error = 0, squares = 0, sum = 0;  // the first: of (eager - exact)^2
};
// Size, deviation, mean, elements compared, and eager's errors, also as those of strict float32; no other counts.
expected_statistics statistics_of(const expected_sums& sums);

// Relative errors: 0 where there is none, infinite where there is nothing to relate it to.
double relative_error(double error, double size);

}  // namespace cudal1
