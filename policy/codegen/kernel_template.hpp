// Kernels that are no body: each makes the results of one step by an algorithm of its own, as statements with values
// that moves choose. kernel_template.cpp lists them; policy/README.md has a recipe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/tile/statement.hpp"

namespace cudal1 {

struct tunable {
  std::string name;             // as moves name it
  std::vector<int64_t> values;  // that may be chosen
};
using tunable_values = std::map<std::string, int64_t>;  // what was chosen; the template decides on the others

// A kernel, and which of the step's values its tensors are.
struct template_kernel {
  std::string comment;  // what it computes
  tile::kernel statements;
  // Arguments of the operator, by name, or "params[3]" of a list.
  std::vector<std::pair<tile::buffer_id, std::string>> reads;
  // The results, in their order, without gaps: with the strides that the operator gives them.
  std::vector<tile::buffer_id> writes;
  std::vector<tile::buffer_id> scratch = {};  // tensors of its own, for one call
  bool cooperative = false;                   // all blocks run at the same time
};

// What a template reads for a step whose results it makes from other values than the step's own.
struct template_operands {
  std::vector<std::pair<std::string, argument_value>> arguments;  // in place of the step's
  std::vector<int> left_out;                                      // steps that only make what the step reads
};

struct kernel_template {
  std::string name, summary;
  std::vector<tunable> tunables;
  // errc::unsupported with the reason where the template cannot make the results of the step, as the task has it.
  expected<void> (*fits)(const graph& g, const graph_step& s);
  // The kernel for a step that fits, with the arguments below. Pure, and called from many threads at once.
  // errc::unsupported where values exclude each other.
  expected<template_kernel> (*write)(const graph& g, const graph_step& s, const tunable_values& chosen);
  // Of a step that fits; null: the step's own arguments.
  template_operands (*operands)(const graph& g, const graph_step& s) = nullptr;
};

const std::vector<kernel_template>& kernel_templates();
// errc::invalid_argument with the known names where there is none.
expected<const kernel_template*> find_kernel_template(std::string_view name);

}  // namespace cudal1
