// The work of a kernel of rows, pass by pass.
#pragma once

#include <set>
#include <vector>

#include "policy/codegen/cuda/warp_access.hpp"

namespace cudal1 {

class row_work {
 public:
  // The body and the layout must outlive it.
  row_work(const kernel_body& body, const row_layout& l) : body_(&body), l_(&l) {}

  // `kept`: nodes whose elements earlier passes keep in registers; `keeping`: those that this one does.
  void add_pass(const pass_work& pass, const std::set<int>& kept, const std::vector<int>& keeping);
  // The last one finds a maximum and a sum of exponentials at the same time.
  void make_online();
  const kernel_work& all() const { return work_; }

 private:
  const body_access& operand_of(int load) const;
  double scan_cycles(const pass_work& pass) const;       // of a round
  double reduction_cycles(const pass_work& pass) const;  // after the last round

  const kernel_body* body_;
  const row_layout* l_;
  std::set<int> read_;  // loads of earlier passes
  double kept_registers_ = 0;
  kernel_work work_;
};

}  // namespace cudal1
