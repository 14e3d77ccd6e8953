// What the builders of several operators share: their operands and numbers as nodes, and means.
#pragma once

#include "policy/body/body_builder.hpp"

namespace cudal1 {

// Expressions by which row kernels for GPUs recognise a maximum and the sum of exponentials below it
// (paired_reductions): of an element and the maximum, and of a maximum and infinity.
inline constexpr const char* exponential_of_difference = "__expf($0 - $1)";
inline constexpr const char* zero_where_infinite = "fabsf($0) == $1 ? 0.0f : $0";

// The argument, a tensor (broadcast to `result`) or a number.
expected<int> operand_or_number(body_builder& b, const graph_step& s, const char* name, const tensor_type& result,
                                dtype type);
// The expression of the operator's record over the arguments that it lists, or over all arguments of the schema.
expected<int> expression_node(body_builder& b, const graph_step& s, const tensor_type& result, dtype compute,
                              dtype type);
// The elements of the argument, broadcast to the full shape.
expected<int> elements(body_builder& b, const graph_step& s, const char* name = "self", dtype type = dtype::float32);
// errc::unsupported where a result other than the first one is read. `what`: how the message calls the results.
expected<void> check_only_first_is_read(const body_builder& b, const graph_step& s, const char* what);
// What is left of a float32 value in a half type, as float32.
int rounded_to(body_builder& b, int x, dtype half);
// A sum of so many values, divided by their number.
int divided(body_builder& b, int sum, double count);
// The mean over the columns.
int mean_of(body_builder& b, int x);

}  // namespace cudal1
