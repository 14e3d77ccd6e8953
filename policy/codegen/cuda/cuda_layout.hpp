// How a kernel's work is laid out on a GPU: vectors of neighbouring elements, threads per row, rows per block.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/kernel_tunable.hpp"
#include "policy/codegen/pass_plan.hpp"
#include "policy/tile/statement.hpp"

namespace cudal1 {

inline constexpr int64_t large_gpu_processors = 132;  // multiprocessors, of an H100 or H200
// The maximum number of sequential additions into a float; longer sums use a double.
inline constexpr int64_t most_float_additions = 256;

// How a thread accesses the elements of one vector: one value for all; contiguous and aligned; or one by one.
enum class vector_access { uniform, vector, scalar };
vector_access access_of(const body_access& o, int64_t width);
inline tile::access_form form_of(const body_access& o, int64_t width) {
  return access_of(o, width) == vector_access::vector ? tile::access_form::vector : tile::access_form::scalar;
}
// From one element of a vector to the next.
inline int64_t step_of(const body_access& o) {
  return o.strides.empty() ? 0 : o.strides.back();
}
// The elements of a vector of 16 bytes: 8 where the kernel has elements of half types, otherwise 4.
int64_t widest_vector(const kernel_body& body);
// The widest vector (8, 4, 2 or 1 elements, at most `limit`) along the last dimension that works for every tensor with
// stride 1 in that dimension.
int64_t vector_width(const kernel_body& body, int64_t limit);

// "int" where every index of a kernel fits that numbers so many elements or windows, else "long long".
std::string index_type(const kernel_body& body, int64_t numbered);

// A row kernel: `row_threads` threads share a row, and a block has `rows` rows.
struct row_layout {
  bool lanes_over_rows = false;  // see lanes_go_over_rows()
  int64_t width = 1;             // elements of a vector along the columns
  int64_t vectors = 1;           // per row
  int64_t row_threads = 1;       // of a block; a power of two
  int64_t blocks = 1;            // that share a row, as a cluster; a power of two
  int64_t rows = 1;              // per block
  int64_t unrolled = 1;          // vectors that a thread reads before it computes
  bool resident = false;         // a thread's vectors stay in registers between passes
  // Rows begin anywhere in memory: vectors begin at multiples of their own size, the row's first one `row * shift %
  // width` elements before the row. Elements before and behind the row are neither read nor written.
  bool shifted = false;
  int64_t shift = 0;
  bool staged = false;  // results with contiguous rows go through shared memory
  // Rows that are read again are more than the last-level cache holds: results would displace what is read.
  bool streamed = false;

  int64_t threads() const { return row_threads * rows; }
  int64_t lanes() const { return row_threads * blocks; }              // threads that share a row
  bool whole() const { return vectors % (lanes() * unrolled) == 0; }  // no thread is beyond the row's end
  int64_t rounds() const { return (vectors + lanes() * unrolled - 1) / (lanes() * unrolled); }
};
// Whether the blocks of a cluster can share the rows: the sums that they exchange are floats.
bool suits_clusters(const kernel_body& body);
// Whether the tensor differs from row to row and is read from memory rather than from the caches.
bool streams(const kernel_body& body, const body_access& o);
row_layout row_layout_of(const kernel_body& body, const kernel_options& options);
// Whether the tensor has one value per element, and contiguous columns, or rows.
bool has_contiguous_columns(const kernel_body& body, const body_access& o);
bool has_contiguous_rows(const kernel_body& body, const body_access& o);
// Whether neighbouring threads of a row kernel take neighbouring rows: these are adjacent in most tensors, or take
// turns in a few parts of them.
bool lanes_go_over_rows(const kernel_body& body);
// Whether the threads of a row kernel access all large tensors contiguously, if need be through shared memory.
bool is_coalesced(const kernel_body& body);
// The operand as its vectors are accessed: where rows are shifted, as if it had one row, in which they are aligned.
body_access as_accessed(const row_layout& l, body_access o);

}  // namespace cudal1
