// One operator on random operands: the types by our rule, ATen's results when called directly, and those of a program
// with that one step. Operands are written "f[3,4]" (float32; d float64, h float16, g bfloat16, i int32, l int64,
// s int16, c int8, u uint8, b bool), with strides "f[3,4]:1,3", with a bound for integers "l[5]<7", and with "+" for
// values in (0, 1) instead of N(0, 1).
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1::operator_tests {

struct operand {
  std::string name;
  tensor_type type;
  int64_t below = 3;  // integers are drawn from 0..below-1
  bool positive = false;
};

struct operator_case {
  std::string op;
  std::vector<operand> operands;
  std::string args;  // JSON
};

// "aten::mm | a=f[2,3] b=f[3,4] | {...}"
operator_case parse_case(const std::string& line);
std::string case_text(const operator_case& c);

// All cases, and those of two further files.
std::vector<const char*> operator_cases();
const std::vector<const char*>& more_operator_cases();
const std::vector<const char*>& operator_database_cases();

at::Tensor draw(const operand& o, std::mt19937_64& random);
expected<std::vector<operator_result>> typed_by_rule(const operator_case& c);
// The program with the one step.
expected<checked_program> program_of(const operator_case& c);
// Throws ATen's exceptions.
std::vector<at::Tensor> called_directly(const operator_case& c, const std::map<std::string, at::Tensor>& values);
tensor_type type_of(const at::Tensor& t);

// Compares a program with the one step with a direct call. Returns "" or the difference.
std::string compare_with_direct_call(const operator_case& c, uint64_t seed);

}  // namespace cudal1::operator_tests
