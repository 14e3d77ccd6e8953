// Groups of steps that become one kernel each: making them, checking that they can be written, and their names.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/lowering_target.hpp"

namespace cudal1 {

// The kernel of a new or larger group can be built and written, and an order runs everything.
expected<void> check_group(const graph& g, int group, const lowering_target& target);
// The kernel of a group can be written with the options that it has now.
expected<void> check_kernel(const graph& g, int group, const kernel_body& body, const lowering_target& target);
// Makes one group of the steps, in place of pointwise groups that it takes in whole; `into` extends that group.
expected<int> make_group(graph& g, std::vector<int> steps, group_kind kind, int into = -1);
// "g0_relu_mul": the name of a group's kernel.
std::string kernel_name(const graph& g, int group);
// "relu, mul".
std::string operator_names(const graph& g, const std::vector<int>& steps);

}  // namespace cudal1
