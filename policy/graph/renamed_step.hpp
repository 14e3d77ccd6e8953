// A step of a task's program with other names for its values.
#pragma once

#include <functional>
#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// `s`: a step as the task defines it (graph::definition). `name` gives the new name of each operand and result; a
// result that nothing reads stays without a name.
aten_step renamed_step(const graph_step& s, const std::function<std::string(const std::string& value)>& name);

}  // namespace cudal1
