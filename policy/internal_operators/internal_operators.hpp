// Internal operators, which moves substitute for the task's, that become steps of a program. Each has its own file;
// internal_operators.cpp lists them. Those with a place in kernel bodies are in policy/body.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "policy/codegen/program_kernels.hpp"
#include "policy/graph/graph.hpp"

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

struct internal_operator {
  std::string name;         // "cudal1::split_product"
  lowering_maker lowering;  // becomes steps of the program
};

// Null where the operator is none of these.
const internal_operator* find_internal_operator(std::string_view name);

}  // namespace cudal1
