// Which values of a kernel body are computed in which pass over the columns, and which are kept from one to the next.
#pragma once

#include <set>
#include <vector>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

struct pass_work {
  std::vector<int> reduced;   // reduce nodes that end with this pass
  std::vector<int> scanned;   // scan nodes
  std::vector<int> results;   // of the body, one value an element
  std::vector<int> elements;  // nodes to compute for each element, operands first
  bool empty() const { return reduced.empty() && results.empty(); }
};

class pass_plan {
 public:
  explicit pass_plan(const kernel_body& body);

  int passes() const { return last_ + 1; }
  int level(int node) const { return levels_[static_cast<std::size_t>(node)]; }
  bool is_row_result(const body_result& r) const;
  // `kept`: nodes whose elements earlier passes kept.
  pass_work work_of(int pass, const std::set<int>& kept) const;
  // What this pass computes, later passes need, and costs more than keeping it; nothing where the columns of a row are
  // more than `limit` elements. `joined`: also what is made of several tensors, which would all be kept otherwise.
  std::vector<int> worth_keeping(const pass_work& work, int pass, const std::set<int>& kept, int64_t limit,
                                 bool joined = false) const;
  // errc::unsupported with the reason where no kernel that takes its rows apart from each other computes the body.
  // `in_place`: the result is written over an operand.
  expected<void> check_row_kernel(bool in_place) const;
  // Whether a tensor that the (only) result is written over is still read after that.
  bool reads_after_write() const;

 private:
  bool joins(int node) const;
  const body_node& node(int n) const { return body_->nodes[static_cast<std::size_t>(n)]; }
  const kernel_body* body_;
  std::vector<int> levels_;
  std::set<int> reached_;
  int last_ = 0;
};

}  // namespace cudal1
