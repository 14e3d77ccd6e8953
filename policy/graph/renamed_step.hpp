// A step of a task's program with other names for its values.
#pragma once

#include <functional>
#include <string>

#include "policy/graph/graph.hpp"

namespace cudal1 {

// The step as a call of the operator that the task has there. What a rewriting reads under the names of that operator's
// arguments takes their place; what an internal operator reads under names of its own is left out. `name`
// gives the new name of each operand and result; a result that nothing reads stays without a name.
aten_step renamed_step(const graph& g, int number, const std::function<std::string(const std::string& value)>& name);

}  // namespace cudal1
