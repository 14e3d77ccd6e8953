// Arguments of ATen steps as C++: exact, since they are written from the bound values with all defaults filled in.
#pragma once

#include <string>
#include <vector>

#include "sandbox/program/operators/operators.hpp"

namespace cudal1::kernelbench {

std::string scalar_type_text(dtype t);        // "at::kFloat"
std::string real_text(double v);              // "0.5", "std::numeric_limits<double>::infinity()"
std::string float_text(double v);             // "0.5f"
std::string integer_text(int64_t v);          // "int64_t{5}"
std::string string_text(std::string_view v);  // with quotes and escapes
// The member of a program's values that holds a value.
std::string value_text(const std::string& name);  // "v.x_"
bool is_own_operator(std::string_view op);        // in namespace cudal1, whose text a file contains
std::string operator_text(std::string_view op);   // "at::_ops::add_Tensor" of "aten::add.Tensor"
// The header that declares one of ATen's, "ATen/ops/add_ops.h", and those of types of its arguments that `common`
// lacks.
std::vector<std::string> operator_headers(const operator_schema& schema);

struct argument_text {
  std::vector<std::string> declarations;  // statements that come before the call
  std::string text;
};
// Argument `index` of the operator. A device argument, which programs omit, is the program's device.
argument_text argument_of(const operator_call& call, std::size_t index);

}  // namespace cudal1::kernelbench
