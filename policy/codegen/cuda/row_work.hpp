// The work of a kernel of rows, pass by pass.
#pragma once

#include <set>
#include <vector>

#include "policy/codegen/cuda/warp_access.hpp"

namespace cudal1 {

// What a pass of paired_reductions does besides computing elements and adding them up, in instructions and dependent
// clock cycles.
struct paired_work {
  double element_instructions = 0, vector_instructions = 0, element_cycles = 0, vector_cycles = 0;
};

class row_work {
 public:
  // The body and the layout must outlive it.
  row_work(const kernel_body& body, const row_layout& l) : body_(&body), l_(&l) {}

  // `kept`: nodes whose elements earlier passes keep in registers; `keeping`: those that this one does.
  void add_pass(const pass_work& pass, const std::set<int>& kept, const std::vector<int>& keeping);
  // The last one reduces twice at the same time, with this work.
  void pair(const paired_work& more);
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
