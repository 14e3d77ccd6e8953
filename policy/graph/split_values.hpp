// Values whose dimensions are divided in two, as [2, 3, 4, 8] with the last dimension divided by two is
// [2, 3, 4, 4, 2], and the steps that read them, written so that they work in that shape.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/program_changes.hpp"

namespace cudal1 {

// The sizes that each dimension of a value consists of: {4, 2} for one of 8, {3} for one that is not divided.
using dimension_parts = std::vector<std::vector<int64_t>>;
std::vector<int64_t> shape_of(const dimension_parts& parts);

// A value in divided form is contiguous, so that its own form is a view.
class split_values {
 public:
  split_values(const graph& g, program_changes& out) : g_(&g), out_(&out) {}

  // `name` is the value of the graph in this form.
  void add(const std::string& value, std::string name, dimension_parts parts) {
    forms_.insert_or_assign(value, form{std::move(name), std::move(parts)});
  }
  bool has(const std::string& value) const { return forms_.contains(value); }

  // Adds the step, on divided values where it reads some and can be written so, or else on the values' own forms.
  void add(const graph_step& s);
  // Adds the value's own form where it has none yet.
  void add_own(const std::string& value);
  void add_outputs();

 private:
  struct form {
    std::string name;
    dimension_parts parts;
  };
  // How a step is written on divided values: its text and the parts of its results.
  struct divided_step {
    aten_step text;
    dimension_parts parts;
  };
  const form* form_of(const std::string& value) const;
  const form* form_of_operand(const graph_step& s) const;
  std::optional<std::vector<int64_t>> shape_among(const std::string& value, const dimension_parts& of) const;
  std::optional<divided_step> divided(const graph_step& s);
  std::optional<divided_step> elementwise(const graph_step& s);
  std::optional<divided_step> normalization(const graph_step& s);
  std::optional<divided_step> reduction(const graph_step& s) const;
  std::optional<divided_step> pool(const graph_step& s) const;
  bool put_operands(aten_step& made, const graph_step& s, const dimension_parts& of);
  void add_divided(const graph_step& s, divided_step made);

  const graph* g_;
  program_changes* out_;
  std::map<std::string, form> forms_;
  std::set<std::string> own_;  // divided values that have their own form, too
};

}  // namespace cudal1
