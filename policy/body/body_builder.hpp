// Builds a kernel body from its results backwards, and finds the builder of each operator.
//
// A scope is a part of the kernel whose values have one shape, and says where along the body's axes their elements lie:
// the results, each of the equal parts of a value, what windows slide over, the A of a contraction. An operator's
// builder sees the scope that it builds for, and asks for its operands; one that the kernel computes is then built in
// that scope, once.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/body/kernel_body.hpp"
#include "policy/body/kernel_domain.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

// Where along a dimension of a value an element lies: multiples of the axes' indices, added to an offset.
struct coordinate {
  std::vector<std::pair<int, int64_t>> terms;  // axis, multiple
  int64_t offset = 0;
  bool operator==(const coordinate&) const = default;
};
using place = std::vector<coordinate>;  // by dimension
// The place of a value of one shape where it is broadcast to another, whose place is known; empty where it cannot be.
std::optional<place> broadcast_place(const std::vector<int64_t>& shape, const std::vector<int64_t>& to,
                                     const place& where);

class body_builder {
 public:
  body_builder(const graph& g, kernel_domain domain, const std::vector<int>& steps);

  // Builds all results that are read outside of the steps.
  expected<kernel_body> build() &&;

  // ---- for operators ----
  const graph& program() const { return *graph_; }
  const row_domain& rows() const { return domain_.rows; }
  const std::optional<joined_parts>& parts() const { return domain_.parts; }
  const std::vector<int64_t>& shape() const { return scope_now().shape; }  // of the scope
  int64_t columns() const { return body_.columns(); }
  // Whether the kernel computes the value.
  bool is_computed(const std::string& value) const;
  // Whether values of that shape have one value per element, or are the same along some dimensions.
  bool is_by_element(const std::vector<int64_t>& shape) const;
  // The node of an argument, as an operand of a step with this result.
  expected<int> operand(const graph_step& s, std::string_view name, const tensor_type& result, dtype wanted);
  expected<int> operand_value(const std::string& value, const tensor_type& result, dtype wanted);
  // Loads what is in memory as a view of its type and first element has it: `as`.
  expected<int> view_of_memory(const std::string& name, const tensor_type& as);
  // Loads the elements of a view of memory in which each dimension of the result is so many neighbouring ones (one or
  // two, of which an element of the result is outer * inner's size + inner).
  expected<int> merged_load(const std::string& view, const std::vector<int64_t>& parts, const tensor_type& result);
  // An operand in an argument that is a list: the one with the number of the part that is being built.
  expected<int> joined_operand(const graph_step& s, std::string_view name, dtype wanted);
  // What the windows slide over, an argument of a step that reduces them.
  expected<int> slid_operand(const graph_step& s, std::string_view name);
  // Loads a value with one stride for each dimension of the scope's shape (0: broadcast), or of the leading ones.
  int strided_load(const std::string& value, const std::vector<int64_t>& strides);
  // Loads what windows do not slide over. Strides by dimension of what they make, and by place in the window.
  expected<int> window_weights(const std::string& value, const std::vector<int64_t>& strides,
                               const std::vector<int64_t>& by_place = {});
  // Loads from a table: the elements of the row that `index` names, whose values are in memory. The strides are by
  // dimension of the step's result.
  struct table {
    std::string value, index;
    std::vector<int64_t> strides, index_strides;
    int64_t row_stride = 0, rows = 0;
  };
  expected<int> table_load(const table& from, const tensor_type& result);
  int constant(double v, dtype type = dtype::float32);
  int pointwise(std::string expression, std::vector<int> operands, dtype type = dtype::float32, int cost = 1);
  // The node's number as one of this type: kernels compute narrow integers in wider ones, and it may have left the
  // range.
  int wrapped_to(dtype type, int n);
  // Where elements of a result lie in this scope; the step's results have such a place.
  expected<place> place_of(const tensor_type& result) const;
  // The contracted axis of a product with that A: a new one, or that of another product with the same A.
  int k_axis_of(const std::string& a, int64_t count);
  // An operand of a product, at these places: a load of what is in memory, or A as the kernel computes it.
  expected<int> operand_in_memory(const std::string& value, const place& where);
  expected<int> computed_operand(const std::string& a, const place& where);
  int contraction(int axis, int a, int b, band a_band, band b_band);
  // A convolution that adds up channels of its input, all or those of a group: the sum of the products of the elements
  // that its windows meet, at this place of its result, and its weights ([out, in of a group, ...] by dimension). Or a
  // transposed one without groups, with weights [in, out, ...].
  struct convolved {
    std::string input, weight;
    std::vector<work_parts::window> windows;
    bool is_transposed = false;
  };
  expected<int> convolution(const convolved& of, const place& where);
  bool is_in_operand() const { return scope_now().kind == scope_kind::operand; }
  int reduce(reduction_kind how, int node);
  int scan(int node);
  int window_size(bool counts_padding);
  // Binds a result of the step to its node.
  expected<void> bind(const graph_step& s, std::size_t result, int node);
  body_node& node(int n) { return body_.nodes[static_cast<std::size_t>(n)]; }

 private:
  enum class scope_kind { results, part, windows, operand };
  struct scope {
    scope_kind kind = scope_kind::results;
    std::vector<int64_t> shape;
    place where;
    int64_t part = 0;  // its number
    // Of windows over groups of channels: the axis of the results' channels and how many of them a group has, and the
    // axis of the input's channels of a group.
    divided_axis groups = {};
    int channel = -1;
  };

  const scope& scope_now() const { return scopes_[static_cast<std::size_t>(now_)]; }
  // What this builds, seen from a scope.
  template <typename Build>
  auto in_scope(int scope, const Build& build) {
    const int before = std::exchange(now_, scope);
    auto out = build();
    now_ = before;
    return out;
  }
  void add_axes();
  void add_scopes();
  // Where values of that shape lie in a scope; empty where they cannot.
  std::optional<place> place_in(int scope, const std::vector<int64_t>& shape) const;
  std::optional<place> place_here(const std::vector<int64_t>& shape) const { return place_in(now_, shape); }
  std::optional<place> place_of_rows(const std::vector<int64_t>& shape) const;
  std::optional<place> place_along(const std::vector<int64_t>& shape) const;
  bool has_columns(const place& where) const;
  bool is_ungrouped(const std::vector<int64_t>& shape) const {
    return domain_.parts && !domain_.parts->ungrouped.empty() && shape == domain_.parts->ungrouped;
  }
  std::vector<int64_t> strides_at(const std::vector<int64_t>& by_dim, const place& where) const;
  static int64_t offset_at(const std::vector<int64_t>& by_dim, const place& where);
  bool reaches_padding(const std::vector<int64_t>& strides) const;
  // Where the elements of a load are: in the tensor, or those of windows, which may lie outside of it.
  enum class load_bounds { tensor, windows };
  load_bounds bounds_now() const {
    const bool is_slid = scope_now().kind == scope_kind::windows && !(pools_convolution_ && now_ == windows_);
    return is_slid ? load_bounds::windows : load_bounds::tensor;
  }
  int load(const std::string& value, const std::vector<int64_t>& strides, int64_t offset, load_bounds bounds);
  expected<int> computed(const std::string& value, int in);
  int add_contracted_axis(int64_t count);
  // That the windows of the pool that reduces the convolution's results are as kernels of convolutions have them.
  expected<void> check_pool(const std::vector<work_parts::window>& convolved) const;
  expected<int> loaded_as(const std::string& value, const tensor_type& type, const place& where, dtype wanted);
  int converted(int n, dtype wanted);
  int cast(int n, dtype from, dtype wanted);
  int add_node(body_node n);
  void bind_value(const std::string& value, int n);
  expected<void> add_step(const graph_step& s);
  expected<void> add_slices(const graph_step& s);
  expected<void> add_feature_pool(const graph_step& s);
  expected<bool> adds_parts(const graph_step& s);  // whether it did
  expected<void> add_results(const graph_step& s, std::size_t result);

  const graph* graph_;
  kernel_domain domain_;
  std::set<int> steps_;
  std::deque<scope> scopes_;  // of the results, of the parts, of windows, and of the As of contractions
  int now_ = 0, step_ = -1;   // the scope and the step that is being built
  int first_part_ = 0, windows_ = -1;
  bool pools_convolution_ = false;  // the windows slide over what the kernel makes of its convolution
  place taps_;
  kernel_body body_;
  // When the kernel's text has each node: the step that needs it first, and its number among those of that step.
  std::vector<std::pair<int, int>> order_;
  int added_ = 0;
  std::map<std::pair<int, std::string>, int> bound_;  // by scope and value
  std::map<std::string, scope_kind> kinds_;           // of the scopes in which a value was built
  struct contracted_a {
    int axis = -1, scope = -1;
  };
  std::map<std::string, contracted_a> contracted_;  // by the value of A
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
// The builder of a row operator, of windows, or of an internal operator.
const row_operator* find_row_builder(const graph_step& s);
// Whether the operator works on rows in this step. Batch norm in training mode does, which computes its statistics from
// the batch, and a loss that is averaged or summed; otherwise they are pointwise.
bool is_by_row(const graph_step& s);

}  // namespace cudal1
