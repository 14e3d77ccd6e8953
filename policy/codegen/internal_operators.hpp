// Internal operators, which moves substitute for the task's, and how a step of each is lowered. Each operator has its
// own file; internal_operators.cpp lists them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "policy/codegen/body_builder.hpp"
#include "policy/codegen/program_kernels.hpp"

namespace cudal1 {

// Writes the steps of one operator into a program. One object per program, so that its steps can share values.
class step_lowering {
 public:
  virtual ~step_lowering() = default;
  // `call`: the step of the task's program, and what the internal operator reads under names of its own, with the names
  // that the values have in the lowered one.
  virtual expected<void> add(const graph_step& s, const aten_step& call) = 0;
};

using lowering_maker = std::function<std::unique_ptr<step_lowering>(const graph&, program_kernels&)>;

// Exactly one of `elementwise`, `rows` and `lowering` is set.
struct internal_operator {
  std::string name;                  // "cudal1::row_scale"
  operator_builder elementwise;      // in a kernel body, one value per element
  std::optional<row_operator> rows;  // in a kernel body, over the columns of rows
  lowering_maker lowering;           // not in a kernel: becomes steps of the program
};

// Null where the operator is not an internal one.
const internal_operator* find_internal_operator(std::string_view name);

}  // namespace cudal1
