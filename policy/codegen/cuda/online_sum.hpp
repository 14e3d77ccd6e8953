// A maximum and the sum of the exponentials of what is below it, which one pass over a row computes: whenever the
// maximum of a thread's elements grows, what it has summed is scaled (Milakov and Gimelshein 2018).
#pragma once

#include <optional>
#include <string>

#include "policy/codegen/cuda/cuda_row_group.hpp"

namespace cudal1 {

struct online_sum {
  int top = -1, sum = -1;      // nodes: the reductions of two passes, one after the other
  bool is_finite_top = false;  // what is subtracted is 0 where the maximum is infinite, of either sign
};

// Nothing where the body has none, or where these passes do something else as well.
std::optional<online_sum> find_online_sum(const kernel_body& body, const pass_plan& plan);

// Its part of a row kernel. In `run_NAME` each thread has the maximum, and the sum, of the elements that it has seen.
class online_sum_writer {
 public:
  // All must outlive it.
  online_sum_writer(kernel_writer& w, tile::kernel_builder& b, const row_layout& l, cuda_row_group& group,
                    const online_sum& of)
      : w_(&w), b_(&b), l_(&l), group_(&group), of_(of) {}
  const online_sum& of() const { return of_; }

  void begin();
  // For each vector: `online[width]`, then its elements, then what they add. `inside`: the condition that the element
  // lies in the row, "" where it does.
  void declare_vector();
  void set_element(const index_expr& lane, const std::string& inside);
  void add_vector();
  // Every thread of the row gets both values.
  void end();

 private:
  std::string subtracted(const std::string& top) const;
  void write_total(int node, const std::string& own);
  const std::string& top() const { return w_->variable(of_.top); }
  const std::string& sum() const { return w_->variable(of_.sum); }

  kernel_writer* w_;
  tile::kernel_builder* b_;
  const row_layout* l_;
  cuda_row_group* group_;
  online_sum of_;
  tile::buffer_id online_ = 0;
};

}  // namespace cudal1
