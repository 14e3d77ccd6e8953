// Making and changing kernel bodies by hand: for rewritings, and for what cuts one body into several.
#pragma once

#include <string>
#include <vector>

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

// Each adds a node and returns it. A load adds its operand too; `row`: the node of the row's number, if another value
// chooses it. A pointwise node computes in float32.
int add_node(kernel_body& body, body_node n);
int add_load(kernel_body& body, body_operand from, bool per_row, std::vector<int> row = {});
int add_pointwise(kernel_body& body, std::string expression, std::vector<int> operands, bool per_row = false,
                  int cost = 1);
// A tensor with one value for each index of the first `dims` dimensions, contiguous in their order.
body_operand row_tensor(const kernel_body& body, const std::string& name, dtype type, int dims);
// Reorders the nodes so that operands come before their users, and removes unused nodes and tensors. Not for a body
// with a product.
void tidy(kernel_body& body);

}  // namespace cudal1
