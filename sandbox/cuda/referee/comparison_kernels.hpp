// The referee's own kernels on a GPU: comparison and fingerprints (fingerprints.hpp), each in one pass over memory and
// with the same result every time. The text is CUDA C++ without includes, which the `cpu` device compiles as well.
#pragma once

#include <cstdint>
#include <string_view>

namespace cudal1 {

// Threads of a block, in every launch of these kernels.
inline constexpr unsigned referee_kernel_threads = 256;

// The doubles that `compare` writes for each block: sums, the largest deviation, the largest excess over the tolerance,
// its flat index, and the flat index of the first element whose class (finite, NaN, infinite) differs. An index is -1
// if there is no such element.
enum comparison_field : std::size_t {
  field_count,       // elements where value, eager and exact are finite
  field_mismatches,  // elements whose class differs between value and eager
  field_outside,
  field_value_error,  // sum of (value - exact)^2
  field_reference_outside,
  field_outside_loose,  // of the loose tolerance: eager against the exact output where that is counted, else the value
                        // against eager alone
  field_eager_error,
  field_exact_squares,
  field_exact_sum,
  field_largest,
  field_excess,
  field_excess_index,
  field_mismatch_index,
  comparison_fields,
  // `add_up` combines those of all blocks and adds two.
  field_worst_value = comparison_fields,
  field_worst_expected,
  record_fields
};

std::string_view referee_kernel_text();

}  // namespace cudal1
