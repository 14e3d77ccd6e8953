// Operators of our own, which moves put in the place of the task's: what codegen makes of a step of each. One entry an
// operator, in the file that says what it is; internal_operators.cpp lists them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "policy/codegen/body_builder.hpp"
#include "policy/codegen/lowering_target.hpp"

namespace cudal1 {

// Writes the steps of one operator into a program. One object a program: its steps may share what they need.
class step_lowering {
 public:
  virtual ~step_lowering() = default;
  // `call`: the step as the task's program has it, with the names that its values have in the lowered one.
  virtual expected<void> add(const graph_step& s, const aten_step& call) = 0;
};

using lowering_maker =
    std::function<std::unique_ptr<step_lowering>(const graph&, const lowering_target&, program& out)>;

// One of the three is there.
struct internal_operator {
  std::string name;                  // "cudal1::row_scale"
  operator_builder elementwise;      // a part of a kernel's body, one value an element
  std::optional<row_operator> rows;  // a part of a kernel's body that goes over the columns of rows
  lowering_maker lowering;           // no part of a kernel: steps of the program in its place
};

// Null where the operator is none of ours.
const internal_operator* find_internal_operator(std::string_view name);

}  // namespace cudal1
