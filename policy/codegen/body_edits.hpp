// Changes of kernel bodies, for what cuts one body into several.
#pragma once

#include "policy/codegen/kernel_body.hpp"

namespace cudal1 {

// Adds an operand and a node that loads it; returns the node.
int add_load(kernel_body& body, body_operand from, bool per_row);
// Reorders the nodes so that operands come before their users, and removes unused nodes and tensors. Not for a body
// with a product.
void tidy(kernel_body& body);

}  // namespace cudal1
