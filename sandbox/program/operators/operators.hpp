// The operators that a program may use, with rules for shapes, dtypes and strides that do not use LibTorch: a step is
// accepted or rejected before it reaches ATen, which is not memory-safe for bad arguments. Everything known about an
// operator is in its record, in the file of its family (record.hpp); this header has what programs need.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/json.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

enum class schema_type {
  tensor,
  tensor_list,
  boolean,
  integer,
  real,
  scalar,
  string,
  dtype,
  memory_format,
  layout,
  device,
  integer_list,
  boolean_list,
  real_list
};

struct schema_argument {
  std::string name;
  schema_type type = schema_type::tensor;
  bool optional = false;        // "Tensor?", "int[]?": may be null
  bool optional_items = false;  // "Tensor?[]": items may be null (a tensor_argument without a name)
  // "int[n]": an integer, or a list of one, is repeated n times; other lists have n items (or none, where the default
  // is []). For "int[1]" lists of any length are accepted, as in ATen.
  std::optional<int64_t> fixed_size;
  std::optional<json> default_value;  // as a program would write it
};

struct operator_schema {
  std::string name;  // with overload: "aten::add.Tensor"
  std::vector<schema_argument> arguments;
  std::vector<std::string> results;  // their names, "" where the schema gives none
  // "-> Tensor[]": one list (`results` has one name); the step has one result for each item that the rule returns.
  bool list_result = false;
};

// Parses "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor". Defaults may have the form that
// ATen prints or that of native_functions.yaml ("int[2] stride=1", "bool x=False", "reduction=Mean").
expected<operator_schema> parse_schema(std::string_view text);

// An argument as the rules and the interpreter see it, defaults filled in.
struct tensor_argument {
  std::string name;
  tensor_type type;
};
using scalar_value = std::variant<bool, int64_t, double>;
using argument_value = std::variant<std::monostate,  // null
                                    tensor_argument, std::vector<tensor_argument>, scalar_value, std::string, dtype,
                                    std::vector<int64_t>, std::vector<bool>, std::vector<double>>;
// schema_type::boolean, integer, real and scalar are scalar_value of the right alternative; string, memory_format,
// layout, device are std::string; dtype is dtype.

struct operator_result {
  tensor_type type;
  // The argument (index) whose memory the result is a view of; a program may not write through either.
  std::optional<std::size_t> view_of;
};

struct operator_info;

// One call of an operator with typed arguments.
struct operator_call {
  const operator_info* op = nullptr;
  std::vector<argument_value> arguments;  // in the schema's order, all of them
};

using operator_rule = std::function<expected<std::vector<operator_result>>(const operator_call&)>;

struct operator_record;

// An operator under one of its names.
struct operator_info {
  operator_schema schema;
  operator_rule rule;
  std::string schema_text = {};  // as ATen prints it
  // Kernels of different devices give its results different layouts: the rule defines one, and the interpreter copies
  // results with another layout into it.
  bool needs_relayout = false;
  const operator_record* record = nullptr;  // the same for all its names
};

// Null where the operator is not on the list.
const operator_info* find_operator(std::string_view name);
// All of them, by name, aliases included.
const std::map<std::string, operator_info, std::less<>>& operator_table();

// Types the arguments of an ATen step by the schema. `lookup` returns the type of a value, or null. Errors name the
// field.
expected<operator_call> bind_arguments(const operator_info& op, std::span<const std::pair<std::string, json>> args,
                                       const std::function<const tensor_type*(const std::string&)>& lookup);

}  // namespace cudal1
