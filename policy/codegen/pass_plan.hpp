// Which values of a kernel body are computed in which pass over the columns, and which are kept from one to the next.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

struct pass_work {
  std::vector<int> reduced;   // reduce nodes that this pass completes
  std::vector<int> scanned;   // scan nodes
  std::vector<int> results;   // of the body, one value per element
  std::vector<int> elements;  // nodes to compute for each element, operands first
  bool empty() const { return reduced.empty() && results.empty(); }
};

enum class keeping { costly, costly_or_joined };

class pass_plan {
 public:
  explicit pass_plan(const kernel_body& body);

  int passes() const { return last_ + 1; }
  int level(int node) const { return levels_[static_cast<std::size_t>(node)]; }
  bool is_row_result(const body_result& r) const;
  // `kept`: nodes whose elements earlier passes stored.
  pass_work work_of(int pass, const std::set<int>& kept) const;
  // What the pass's elements, reductions and results are made of, among them values that are one per row.
  std::vector<int> operands_of(const pass_work& work) const;
  // Nodes that this pass computes and later passes need, and that are cheaper to store than to recompute. costly: those
  // that are expensive to recompute; joined: those computed from several tensors, which would all be stored otherwise.
  std::vector<int> worth_keeping(const pass_work& work, int pass, const std::set<int>& kept,
                                 keeping which = keeping::costly) const;
  // errc::unsupported with the reason where no kernel with independent rows can compute the body. `in_place`: the
  // operand that the result overwrites, or "".
  expected<void> check_row_kernel(const std::string& in_place) const;
  // Whether an operand that the (only) result overwrites would still be read after the first write.
  bool reads_after_write() const;

 private:
  void add_operands(int of, std::vector<int>& into) const;
  bool has_scan_of_scan() const;
  bool joins(int node) const;
  const body_node& node(int n) const { return body_->nodes[static_cast<std::size_t>(n)]; }
  const kernel_body* body_;
  std::vector<int> levels_;
  std::set<int> reached_;
  int last_ = 0;
};

}  // namespace cudal1
