// The threads that share a row on a GPU: their indices, and how they combine reductions and running sums.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

// A reduction whose partial results each thread holds in `part_NAME[width]`.
struct group_value {
  std::string name, accumulator, type;  // C types: of the partial results, and of the row's value NAME
  reduction_kind how;
};

// Gives every lane of groups of so many neighbouring ones (a power of two) the reduction of their variable, of that C
// type.
void reduce_lanes(kernel_writer& w, reduction_kind how, const std::string& type, const std::string& variable,
                  int64_t lanes);

class cuda_row_group {
 public:
  cuda_row_group(kernel_writer& w, const row_layout& l) : w_(&w), l_(&l) {}

  // Declares `lane`, `row` (clamped to the last row; threads beyond it write nothing), the row's indices and pointers.
  void write_row();
  // Declares the indices of `row` along each dimension, where there are several.
  void write_row_indices();
  // From the tensor's first element to that row.
  index_expr row_offset(const std::vector<int64_t>& strides) const;
  // Every thread of the row gets the values; there is at most one __syncthreads().
  void write_reductions(const std::vector<group_value>& values);

  // Opens code for threads of existing rows (live), and for one thread of each such row (first).
  void open_live();
  void close_live();
  void open_first();
  void close_first();

  // A running sum over `run_NAME[width]`, zero where a thread has no elements; afterwards `ahead_NAME` is the sum of
  // all elements before the vector. All threads of the row take part.
  void declare_scan(int node);
  void open_scan(int node);
  void close_scan(int node);

 private:
  bool guarded() const { return w_->body().rows() % l_->rows != 0; }
  int64_t warps() const { return l_->row_threads / 32; }
  void combine_vector(const group_value& v);
  void combine_warp(const group_value& v, int64_t lanes);
  void combine_shared(const std::vector<group_value>& values);

  kernel_writer* w_;
  const row_layout* l_;
  std::vector<index_expr> row_;  // its coordinates
};

}  // namespace cudal1
