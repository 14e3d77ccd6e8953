// Operators that moves substitute for the task's and that have a place in a kernel body, as ATen's have. Each has its
// own file; body_operators.cpp lists them. Those that become steps of a program are in policy/internal_operators.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/body/body_builder.hpp"

namespace cudal1 {

// Exactly one of the two is set.
struct body_operator {
  std::string name;                  // "cudal1::row_scale"
  operator_builder elementwise;      // one value per element
  std::optional<row_operator> rows;  // over the columns of rows
};

// Null where the operator is none.
const body_operator* find_body_operator(std::string_view name);

}  // namespace cudal1
