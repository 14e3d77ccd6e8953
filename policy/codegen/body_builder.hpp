// Builds a kernel body step by step, and finds the builder of each operator.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "policy/codegen/kernel_body.hpp"
#include "policy/codegen/kernel_domain.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

// How a value maps to the domain of rows and columns.
enum class value_form {
  full,          // one value per element; where the domain is a part, one for each part
  part,          // one value per element of a part
  row_kept,      // one per row, the reduced dimensions kept with size 1
  row_squeezed,  // one per row, the reduced dimensions removed
  repeated,      // one per element, the same along dimensions that only other values have: computed again along them
  pooled,        // one per element of what windows slide over
};

class body_builder {
 public:
  // `in_front`: steps that make what windows slide over, or a factor of a product.
  body_builder(const graph& g, row_domain domain, std::set<int> in_front = {});

  expected<void> add_step(const graph_step& s);
  expected<kernel_body> finish(const std::vector<int>& steps) &&;

  // ---- for operators ----
  const graph& program() const { return *graph_; }
  const row_domain& domain() const { return domain_; }
  int64_t columns() const { return columns_; }
  // Whether values of that shape have one value per element (of what windows slide over, or one per window).
  bool is_whole(const std::vector<int64_t>& shape) const {
    const auto form = form_of(shape);
    return form == value_form::full || (!domain_.windows.empty() && form.has_value());
  }
  // Whether values of that shape have one value per element, or are repeated.
  bool is_by_element(const std::vector<int64_t>& shape) const {
    const auto form = form_of(shape);
    return form == value_form::full || form == value_form::repeated;
  }
  // The node of an argument, as an operand of a step with this result.
  expected<int> operand(const graph_step& s, std::string_view name, const tensor_type& result, dtype wanted);
  expected<int> operand_value(const std::string& value, const tensor_type& result, dtype wanted);
  // Loads what is in memory as a view of its type and first element has it: `as`.
  expected<int> view_of_memory(const std::string& name, const tensor_type& as);
  // The same, where the result is that of the step whose part is being built: the operand of that number in a list.
  expected<int> joined_operand(const graph_step& s, std::string_view name, dtype wanted);
  // What the windows slide over, an argument of a step that reduces them.
  expected<int> pooled_operand(const graph_step& s, std::string_view name);
  // Loads a value with one stride for each dimension of the full shape (0: broadcast), or of the leading ones.
  int strided_load(const std::string& value, const std::vector<int64_t>& strides);
  // Loads what windows do not slide over: by place in the window, or one per window. Strides by dimension of the full
  // shape, or of the leading ones.
  expected<int> window_weights(const std::string& value, std::vector<int64_t> strides);
  // Loads from a table: the elements of the row that `index` names, whose values are in memory. The strides are by
  // dimension of the full shape.
  struct table {
    std::string value, index;
    std::vector<int64_t> strides, index_strides;
    int64_t row_stride = 0, rows = 0;
  };
  expected<int> table_load(const table& from);
  int constant(double v, dtype type = dtype::float32);
  int pointwise(std::string expression, std::vector<int> operands, dtype type = dtype::float32, int cost = 1);
  // The node's number as one of this type: kernels compute narrow integers in wider ones, and it may have left the
  // range.
  int wrapped_to(dtype type, int n);
  // A factor in memory, or what a factor is made of; strides by dimension of the full shape.
  struct product_factor {
    std::string value;
    std::vector<int64_t> strides;
    int64_t step = 0;  // from one term to the next, in elements
    band known = {};
    int64_t lookup_stride = 0, lookup_count = 0, inner_step = 0;  // see body_operand
  };
  bool is_made_in_front(const std::string& value) const;  // of a product
  // The kernel of the steps in front of the product that make this value: its nodes, of which the last one is the
  // value, and operands with strides by dimension of the value. Empty where the value is in memory.
  expected<std::optional<kernel_body>> made_in_front(const std::string& value) const;
  // How such steps make a left factor: nodes whose loads number these operands, of which one has an element for each of
  // the factor's. Where others choose its rows, `rows` has their numbers. Where another product makes it, of so
  // many terms, `main` is that one's left factor, and its right one is `inner_right`.
  struct made_factor {
    std::vector<body_node> nodes;
    std::vector<product_factor> operands;
    int main = 0, rows = -1;
    int inner_right = -1;
    int64_t inner_depth = 0;
  };
  // `of`: the program's name of the left factor, which all products of a kernel have.
  expected<int> product(const std::string& of, const made_factor& left, const product_factor& right, int64_t depth);
  int reduce(reduction_kind how, int node);
  int scan(int node);
  int window_size(bool counts_padding);
  // Binds a result of the step to its node.
  expected<void> bind(const graph_step& s, std::size_t result, int node);
  body_node& node(int n) { return body_.nodes[static_cast<std::size_t>(n)]; }

 private:
  std::optional<value_form> form_of(const std::vector<int64_t>& shape) const;
  bool is_ungrouped(const std::vector<int64_t>& shape) const {
    return !domain_.ungrouped.empty() && shape == domain_.ungrouped;
  }
  std::optional<value_form> repeated_along(const std::vector<int64_t>& shape) const;
  std::vector<int64_t> domain_strides(const std::vector<int64_t>& by_dim, value_form form = value_form::full) const;
  std::vector<int64_t> strides_in_result(const tensor_type& type, const tensor_type& result) const;
  expected<int> loaded_as(const std::string& value, const tensor_type& type, const tensor_type& result, dtype wanted);
  int load(const std::string& value, std::vector<int64_t> strides, int64_t offset = 0, bool slides = true);
  std::vector<int64_t> strides_in_windows(std::vector<int64_t> by_dim) const;
  int64_t part_offset(int64_t part, const std::vector<int64_t>& by_dim) const;
  int converted(int n, dtype wanted);
  int cast(int n, dtype from, dtype wanted);
  int add_node(body_node n);
  void bind_value(const std::string& value, value_form form, int n);
  expected<void> add_slices(const graph_step& s);
  expected<void> add_feature_pool(const graph_step& s);
  expected<bool> adds_parts(const graph_step& s);     // whether it did
  expected<int> add_factor(const product_factor& f);  // the operand
  expected<void> start_products(const std::string& of, const made_factor& left);

  struct bound_value {
    std::vector<int> nodes;  // one for each part of a full value; otherwise one
    value_form form = value_form::full;
  };
  struct domain_dim {
    int64_t dim = 0, size = 0, multiplier = 1;
  };
  const graph* graph_;
  row_domain domain_;
  std::vector<domain_dim> dims_;  // of the body's domain, rows first
  int64_t columns_ = 1;
  int64_t part_ = 0;  // the one being built
  std::set<int> in_front_;
  bool is_in_front_ = false;   // the step being built
  std::vector<char> repeats_;  // by dimension of the full shape: whether the step being built repeats its values
  kernel_body body_;
  std::string left_factor_;  // of the products
  std::map<std::string, bound_value> bound_;
};

// The builder of a pointwise operator; null where the step is not one.
using operator_builder = std::function<expected<void>(body_builder&, const graph_step&)>;
const operator_builder* find_pointwise(const graph_step& s);

// Finds the row domain of a step.
using domain_finder = std::function<expected<row_domain>(const graph&, const graph_step&)>;

// Operators that reduce or scan the columns of each row.
struct row_operator {
  operator_family family = operator_family::reduction;
  domain_finder domain;
  operator_builder build;
};
const row_operator* find_row_operator(const graph_step& s);
// The same, or of windows, or an internal operator's.
const row_operator* find_row_builder(const graph_step& s);
// Whether the operator works on rows in this step. Batch norm in training mode does, which computes its statistics from
// the batch, and a loss that is averaged or summed; otherwise they are pointwise.
bool is_by_row(const graph_step& s);

}  // namespace cudal1
