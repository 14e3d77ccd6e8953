// What one kernel computes, before its text is generated: a small graph of nodes over named axes, and how its tensors
// lie along them. Values are per element or per row; reductions and scans are over the columns of a row, contractions
// over an axis of their own.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/tile/index_expr.hpp"
#include "policy/tile/reduction_kind.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

enum class axis_role {
  parallel,    // the results have an element, or a row, for each index
  reduced,     // a column of a row
  sequential,  // a column of a row over which a running sum goes
  tap,         // a column whose rows are windows: the element of a window
  contracted,  // an index along k of a contraction, or in the windows of a convolution
};

struct body_axis {
  int64_t extent = 1;
  axis_role role = axis_role::parallel;
  bool is_column() const { return role != axis_role::parallel && role != axis_role::contracted; }
  bool operator==(const body_axis&) const = default;
};
// Parallel axes of these extents.
std::vector<body_axis> parallel_axes(const std::vector<int64_t>& extents);

// window_size: how many elements a window has, without those outside of what it slides over.
enum class node_kind { load, constant, pointwise, reduce, scan, contraction, window_size };

struct body_node {
  node_kind kind = node_kind::pointwise;
  dtype type = dtype::float32;
  std::string value;       // the program's name for it; "" where it is only a part of an operator
  std::string expression;  // pointwise: $0, $1, ... stand for the operands; constant: the literal
  // Nodes. Of a load: the number of the row that it reads, where one chooses it. Of a contraction: A and B, which are
  // evaluated for each index of its axis.
  std::vector<int> operands;
  reduction_kind reduction{};   // reduce (scans are sums)
  int access = -1;              // load: which of the body's accesses
  int axis = -1;                // contraction: the one along which it adds A times B up; of a convolution, the channels
  band a_band, b_band;          // contraction: where A (m by k) and B (k by n) may not be zero
  bool per_row = false;         // one value per row
  int cost = 1;                 // of recomputing it and what it is made of, roughly, in additions
  int operations = 1;           // the same of itself: pointwise
  bool counts_padding = false;  // window_size: with those in the padding
};

// Two dimensions of a tensor along which one axis of a body goes: index / divisor is the place in the outer one, and
// the remainder that in the inner one. Strides in elements.
struct divided_axis {
  int axis = -1;
  int64_t divisor = 1, outer_stride = 0, inner_stride = 0;
  bool operator==(const divided_axis&) const = default;
};

// How a kernel reads or writes a tensor: one stride for each axis of the body, in elements.
struct body_access {
  std::string value;
  tensor_type type;
  std::vector<int64_t> strides;  // along divided axes that of the inner dimension, for those who choose layouts
  bool aligned = true;           // the first element is 16-byte aligned; a view may not be
  int64_t offset = 0;            // of the axes' first element from the tensor's, in elements
  // Where another value chooses the row that is read: the stride of rows, and how many there are. The load's operand is
  // the node of the row's number.
  int64_t gather_stride = 0, gather_count = 0;
  bool bounded = false;   // its elements are those of the body's windows, which may lie outside of the tensor
  bool constant = false;  // a weight, or made of weights at set-up: the same in every call

  std::vector<divided_axis> divided = {};

  int64_t stride(int axis) const { return strides[static_cast<std::size_t>(axis)]; }
  const divided_axis* division_of(std::size_t axis) const;  // null where the axis is not divided
};

struct body_result {
  int node = -1;
  body_access target;  // strides of 0 along all columns: one value per row; several may be parts of one tensor
};

inline constexpr int64_t most_parts = 4;  // of a value, of which a thread computes an element each

// How windows slide along a dimension of a tensor, in a kernel whose rows are windows, and whose columns are their
// elements; or in one that makes a convolution, which adds these up.
struct body_window {
  work_parts::window walk;
  int row = -1, column = -1;  // the axes of positions and taps; -1: there is only one
  // Of a transposed convolution: the windows of the input's elements, over the results. The strides along its axes are
  // those of a convolution with these windows.
  bool is_transposed = false;
};

struct kernel_body {
  std::vector<body_axis> axes;   // the parallel ones (rows), then columns, then contracted ones
  std::vector<body_node> nodes;  // operands before their users
  std::vector<body_access> accesses;
  std::vector<body_result> results;
  // Where rows are windows: along which dimensions. Strides are those of consecutive windows and of their elements, and
  // accesses begin with the tensor's first element, `padding` elements behind the first window's. Where a pool reduces
  // the results of a convolution, its windows come first, one a dimension, and then as many of the convolution.
  std::vector<body_window> windows;

  int row_dims() const;  // how many axes index the rows
  int dims() const;      // and the elements: without contracted ones
  int64_t extent(std::size_t axis) const { return axes[axis].extent; }
  std::vector<int64_t> extents() const;  // of the elements' axes
  std::vector<int64_t> row_extents() const, column_extents() const;
  int64_t rows() const;
  int64_t columns() const;
  bool has(node_kind kind) const;
  bool has_reduction() const { return has(node_kind::reduce) || has_scan(); }
  bool has_scan() const { return has(node_kind::scan); }
  bool has_contraction() const { return has(node_kind::contraction); }
  bool is_elementwise() const { return row_dims() == dims(); }  // no columns
  // Whether a tensor of these strides has one value for all columns of a row.
  bool is_one_per_row(const std::vector<int64_t>& strides) const;
  bool is_one_per_row(const body_access& a) const { return is_one_per_row(a.strides); }
  // The nodes that are evaluated where this one is: its operands, but for those of a contraction.
  const std::vector<int>& uncontracted_operands(int node) const;
  // The nodes that are evaluated once for each element or row that the results need, and those that they need inside
  // contractions only.
  std::set<int> needed() const;
  std::set<int> inside_contractions() const;
  // All nodes that these are made of, operands before their users.
  std::vector<int> made_of(const std::vector<int>& nodes) const;
};

// The kernel of a set of steps; its results are the values that are read outside of the set. errc::unsupported with the
// reason where the steps cannot be one kernel.
expected<kernel_body> build_body(const graph& g, const std::vector<int>& steps);

// The role of an operator in a kernel; `other` cannot be in one.
enum class operator_family { other, pointwise, reduction, normalization, scan, view, product, convolution };
operator_family family_of(const graph_step& s);

// Whether rows are adjacent in memory and columns are not: then a thread takes a tile of rows.
bool has_adjacent_rows(const kernel_body& body);

// Puts the axes of the rows, and those of the columns, in the order in which the first result that has one value per
// element has them in memory, or else the largest access. Not of a body with contractions, whose axes have roles.
void order_axes(kernel_body& body);

// Exchanges A and B of a contraction where only A differs along the columns of the rows that follow it (batch norm over
// the batch): a tile then has whole rows.
void put_columns_in_b(kernel_body& body);

// The offset of an element whose places along the axes from `first` on are these; along others it is at 0.
index_expr offset_in(const body_access& o, std::span<const index_expr> at, std::size_t first = 0);

// Merges adjacent axes that every access traverses with one stride, and removes those of size 1.
void collapse_axes(kernel_body& body);

}  // namespace cudal1
