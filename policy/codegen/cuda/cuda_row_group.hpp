// The threads that share a row on a GPU: their indices, and how they combine reductions and running sums.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/kernel_writer.hpp"

namespace cudal1 {

// A reduction whose partial results each thread holds in the array `parts` of a vector's width, of that type; the row's
// value NAME then has its own.
struct group_value {
  std::string name;
  dtype accumulator = dtype::float32, type = dtype::float32;
  reduction_kind how = reduction_kind::sum;
  tile::buffer_id parts = 0;
};

class cuda_row_group {
 public:
  // All must outlive it.
  cuda_row_group(kernel_writer& w, tile::kernel_builder& b, const row_layout& l) : w_(&w), b_(&b), l_(&l) {}

  // Declares `lane`, `row` (clamped to the last row; threads beyond it write nothing), the row's indices and pointers
  // to the row of each tensor: `rows`.
  void write_row(const kernel_writer::tensors& tensors);
  kernel_writer::tensors rows;
  // Declares the indices of `row` along each dimension, where there are several.
  void write_row_indices() { row_ = w_->row_coordinates(*b_); }
  // From the tensor's first element to that row.
  index_expr row_offset(const body_access& o) const;
  index_expr lane() const { return lane_; }
  // Every thread of the row gets the values; there is at most one __syncthreads(), and one cluster_sync().
  void write_reductions(const std::vector<group_value>& values);

  // The last statement: no block of a cluster ends while others read its sums.
  void end();

  // What threads of existing rows do (live), and one thread of each such row (first).
  void live(const std::function<void()>& body);
  void first(const std::function<void()>& body);

  // A running sum over `run_NAME[width]`, zero where a thread has no elements; afterwards `ahead_NAME` is the sum of
  // all elements before the vector. All threads of the row take part.
  void declare_scan(int node);
  tile::buffer_id open_scan(int node);
  void close_scan(int node);

 private:
  bool guarded() const { return w_->body().rows() % l_->rows != 0; }
  int64_t warps() const { return l_->row_threads / 32; }
  void combine_vector(const group_value& v);
  void combine_warp(const group_value& v, int64_t lanes);
  void combine_shared(const std::vector<group_value>& values);
  void combine_cluster(const std::vector<group_value>& values);
  void line(const std::string& text, std::vector<std::string> defines = {}) {
    b_->add({tile::raw{text, std::move(defines)}});
  }

  kernel_writer* w_;
  tile::kernel_builder* b_;
  const row_layout* l_;
  index_expr lane_ = 0;
  std::vector<index_expr> row_;  // its coordinates
};

}  // namespace cudal1
