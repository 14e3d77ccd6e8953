// The threads that share a row on a GPU: where they stand, and how they meet for sums and running sums.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

// A reduction whose parts each thread holds in `part_NAME[width]`.
struct group_value {
  std::string name, accumulator, type;  // C types: of the parts, and of the row's value NAME
  reduction_kind how;
};

class cuda_row_group {
 public:
  cuda_row_group(kernel_writer& w, const row_layout& l) : w_(&w), l_(&l) {}

  // `lane`, `row` (the last one for threads beyond it, which write nothing), its indices, and pointers to it.
  void write_row();
  // Every thread of the row gets the values; all of them meet at most once.
  void write_reductions(const std::vector<group_value>& values);

  // Code for threads of real rows; for one thread of each.
  void open_live();
  void close_live();
  void open_first();
  void close_first();

  // A running sum over `run_NAME[width]`, zero where a thread has no elements: what stands before the vector is
  // `ahead_NAME` then. All threads of the row take part.
  void declare_scan(int node);
  void open_scan(int node);
  void close_scan(int node);

 private:
  bool guarded() const { return w_->body().rows() % l_->rows != 0; }
  int64_t warps() const { return l_->row_threads / 32; }
  void write_pointers();
  std::string row_offset(const std::vector<int64_t>& strides) const;
  void combine_vector(const group_value& v);
  void combine_warp(const group_value& v, int64_t lanes);
  void combine_shared(const std::vector<group_value>& values);

  kernel_writer* w_;
  const row_layout* l_;
};

}  // namespace cudal1
