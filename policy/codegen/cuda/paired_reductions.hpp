// Two reductions of a row of which the second one needs the first one's result, in one pass over the row where it has
// to be read from memory for each: what a thread has reduced is corrected whenever its first reduction changes.
//
// A maximum and the sum of the exponentials of what is below it (Milakov and Gimelshein 2018); a mean and the sum of
// the squared distances from it (Chan, Golub and LeVeque 1983), as exact as in two passes.
#pragma once

#include <memory>
#include <string>

#include "policy/codegen/cuda/cuda_row_group.hpp"
#include "policy/codegen/cuda/row_work.hpp"

namespace cudal1 {

// Its part of a row kernel.
class paired_reductions {
 public:
  virtual ~paired_reductions() = default;
  int first() const { return first_; }  // nodes: the reductions of two passes, one after the other
  int second() const { return second_; }
  virtual paired_work work() const = 0;

  virtual void begin() = 0;
  // For each vector: `online[width]`, then its elements, then what they add. `inside`: the condition that the element
  // lies in the row, "" where it does.
  void declare_vector();
  void set_element(const index_expr& lane, const std::string& inside);
  virtual void add_vector() = 0;
  // Every thread of the row gets the first value, then the second one, which needs the first and `row_value`: a node of
  // one value per row, or -1.
  virtual void end_first() = 0;
  virtual void end_second() = 0;
  virtual int row_value() const { return -1; }

 protected:
  // All must outlive it.
  paired_reductions(kernel_writer& w, tile::kernel_builder& b, const row_layout& l, cuda_row_group& group, int first,
                    int second)
      : w_(&w), b_(&b), l_(&l), group_(&group), first_(first), second_(second) {}
  // The total of one value of each thread.
  void write_total(int node, const std::string& own, dtype type);
  const std::string& name(int node) const { return w_->variable(node); }
  tile::value paired(const index_expr& l) const { return tile::value::element({elements_, {l}}, dtype::float32); }

  kernel_writer* w_;
  tile::kernel_builder* b_;
  const row_layout* l_;

 private:
  cuda_row_group* group_;
  int first_, second_;
  tile::buffer_id elements_ = 0;
};

// Nothing where the body has none, or where these passes do something else as well, or where the layout has nothing to
// gain. All must outlive what is returned.
std::unique_ptr<paired_reductions> find_paired_reductions(kernel_writer& w, tile::kernel_builder& b,
                                                          const row_layout& l, cuda_row_group& group,
                                                          const pass_plan& plan);

}  // namespace cudal1
