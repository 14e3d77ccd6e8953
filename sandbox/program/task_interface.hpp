// What an imported task's model keeps from call to call, and in what its forward returns its tensors.
//
//   "states": [{"name": "hidden", "kind": "assigned", "input": "hidden", "output": "tanh"}],
//   "returns": {"tuple": [0, {"dict": [["hidden", 1], ["nothing", null]]}]}
//
// A state: what a call makes as `output` the next is given as `input`, an input behind forward's own. In `returns` a
// number is a place among the outputs, null is None, {"object": ["package.module:Out", ["y", 0]]} is Out(y=...), a
// class of the source itself where there is no "module:". Without `returns`: the one output, or a tuple of them.
#pragma once

#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "sandbox/program/check.hpp"

namespace cudal1 {

// assigned: an attribute of the module that forward sets (self.hidden = ...). in_place: a tensor of the module that
// forward writes into. argument: a tensor that forward is given and writes into; its `name` is the input's.
BOOST_DEFINE_ENUM_CLASS(state_kind, assigned, in_place, argument)

struct task_state {
  std::string name;  // in the module, as in "cell.hidden"
  state_kind kind = state_kind::assigned;
  std::string input, output;
  bool operator==(const task_state&) const = default;
};
BOOST_DESCRIBE_STRUCT(task_state, (), (name, kind, input, output))

// `p`: the task's program. A state's input and output have one dtype and shape; no name and no input stands in two.
expected<std::vector<task_state>> read_states(const json& v, const checked_program& p);
json states_json(const std::vector<task_state>& states);

// Whether it has the form above.
expected<void> check_returns(const json& v, std::size_t outputs);

}  // namespace cudal1
