// How the work of a kernel lies on a GPU: vectors of neighbouring elements, threads a row, rows a block.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/emit_kernel.hpp"
#include "policy/codegen/pass_plan.hpp"

namespace cudal1 {

// How a thread reaches the elements of one vector: they are one value, they lie side by side and aligned, or apart.
enum class vector_access { uniform, vector, apart };
vector_access access_of(const body_operand& o, int64_t width);
// The widest vectors (4, 2 or 1 elements, at most `limit`) along the last dimension that every tensor which walks
// along it can be read and written in.
int64_t vector_width(const kernel_body& body, int64_t limit = 4);

// "int" where every index of the kernel fits, else "long long".
std::string index_type(int64_t elements);

// A row kernel: `row_threads` threads share a row, `rows` of them are a block.
struct row_layout {
  bool across = false;      // rows lie side by side in memory: neighbouring threads take neighbouring rows
  int64_t width = 1;        // elements of a vector along the columns
  int64_t vectors = 1;      // of a row
  int64_t row_threads = 1;  // a power of two
  int64_t rows = 1;         // a block
  int64_t unrolled = 1;     // vectors that a thread reads before it computes
  bool resident = false;    // a thread's vectors stay in registers from pass to pass

  int64_t threads() const { return row_threads * rows; }
  bool whole() const { return vectors % (row_threads * unrolled) == 0; }  // no thread stands beyond the row's end
  int64_t rounds() const { return (vectors + row_threads * unrolled - 1) / (row_threads * unrolled); }
};
// A tensor that comes from memory rather than from the caches, and differs from row to row.
bool streams(const kernel_body& body, const body_operand& o);
row_layout row_layout_of(const kernel_body& body, const group_options& options);

}  // namespace cudal1
