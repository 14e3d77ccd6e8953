// Making and changing kernel bodies by hand: for rewritings, and for what cuts one body into several.
#pragma once

#include <string>
#include <vector>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

// Each adds a node and returns it. A load adds its access too; `row`: the node of the row's number, if another value
// chooses it. A pointwise node computes in float32.
int add_node(kernel_body& body, body_node n);
enum class values_per { element, row };
int add_load(kernel_body& body, body_access from, values_per each, std::vector<int> row = {});
int add_pointwise(kernel_body& body, std::string expression, std::vector<int> operands,
                  values_per each = values_per::element, int cost = 1);
// A tensor with one value for each index of the first `dims` axes, contiguous in their order.
body_access row_tensor(const kernel_body& body, const std::string& name, dtype type, int dims);
// Keeps these nodes, in this order, with their accesses; each comes after its operands.
void keep_nodes(kernel_body& body, const std::vector<int>& kept);
// Reorders the nodes so that operands come before their users, and removes unused nodes and tensors.
void tidy(kernel_body& body);
// Makes an element of each column of each row.
void make_elementwise(kernel_body& body);
// Removes the contracted axes of a body whose contractions are gone.
void drop_contracted_axes(kernel_body& body);

}  // namespace cudal1
