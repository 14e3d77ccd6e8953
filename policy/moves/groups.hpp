// Groups of steps, each of which becomes one kernel: creating, checking and naming them.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"

namespace cudal1 {

// Checks that the kernel of a new or extended group can be generated and that there is an order to run everything in.
expected<void> check_group(const graph& g, int group, const lowering_target& target);
// Checks that the kernel of a group can be generated with its current options.
expected<void> check_kernel(const graph& g, int group, const kernel_body& body, const lowering_target& target);
// Makes one group of the steps, which absorbs pointwise groups that it covers; `into` extends that group instead.
// errc::invalid_argument where a step is in another group.
expected<int> make_group(graph& g, std::vector<int> steps, group_kind kind, int into = -1);
// The steps out of their kernels, which the others of their groups keep.
expected<void> leave_groups(graph& g, const std::vector<int>& steps, const lowering_target& target);
// Dissolves the groups whose results nothing reads any more.
void dissolve_unread_groups(graph& g);
// Its steps are in no group then.
void dissolve_group(graph& g, int group);
// "g0_relu_mul": the name of a group's kernel.
std::string kernel_name(const graph& g, int group);
// "relu" of "aten::relu", "sum" of "aten::sum.dim_IntList".
std::string short_operator_name(const std::string& op);
// "relu, mul".
std::string operator_names(const graph& g, const std::vector<int>& steps);

}  // namespace cudal1
