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
  figure_count,       // elements where value, eager and exact are finite
  figure_mismatches,  // elements whose class differs between value and eager
  figure_outside,
  figure_value_error,  // sum of (value - exact)^2
  figure_reference_outside,
  figure_reference_outside_loose,
  figure_eager_error,
  figure_exact_squares,
  figure_exact_sum,
  figure_largest,
  figure_excess,
  figure_excess_index,
  figure_mismatch_index,
  comparison_fields,
  // `add_up` combines those of all blocks and adds two.
  figure_worst_value = comparison_fields,
  figure_worst_expected,
  record_fields
};

std::string_view referee_kernel_text();

}  // namespace cudal1
