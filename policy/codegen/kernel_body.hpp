// What one kernel computes, before its text is generated: a small graph over an iteration domain of rows and columns.
// Values are per element or per row; reductions and scans are over the columns of a row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/graph/graph.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/tile/reduction_kind.hpp"
#include "sandbox/program/operators/work_parts.hpp"

namespace cudal1 {

// window_size: how many elements a window has, without those outside of what it slides over.
enum class node_kind { load, constant, pointwise, reduce, scan, product, window_size };

struct body_node {
  node_kind kind = node_kind::pointwise;
  dtype type = dtype::float32;
  std::string value;            // the program's name for it; "" where it is only a part of an operator
  std::string expression;       // pointwise: $0, $1, ... stand for the operands; constant: the literal
  std::vector<int> operands;    // nodes
  reduction_kind reduction{};   // reduce (scans are sums)
  int operand = -1;             // load: which of the body's operands; product: which of the right factors
  bool per_row = false;         // one value per row
  int cost = 1;                 // of recomputing it and what it is made of, roughly, in additions
  int operations = 1;           // the same of itself: pointwise
  bool counts_padding = false;  // window_size: with those in the padding
};

// A tensor that the kernel reads or writes: one stride for each dimension of the domain, in elements.
struct body_operand {
  std::string value;
  tensor_type type;
  std::vector<int64_t> strides;
  bool aligned = true;  // the first element is 16-byte aligned; a view may not be
  int64_t offset = 0;   // of the domain's first element from the tensor's, in elements
  // Where another value chooses the row that is read: how far rows are apart, and how many there are. The load's
  // operand is the node of the row's number.
  int64_t lookup_stride = 0, lookup_count = 0;
  bool slides = true;      // where rows are windows and the value differs in them: they slide over it
  bool constant = false;   // a weight, or made of weights at set-up: the same in every call
  int64_t step = 0;        // of a product's factors: how far those of neighbouring terms are apart, in elements
  int64_t inner_step = 0;  // the same of the terms of a product that makes the left factor of another
};

// Whether a tensor of these strides has one value for all columns of a row.
bool is_one_per_row(const std::vector<int64_t>& strides, int row_dims);

struct body_result {
  int node = -1;
  body_operand target;  // strides of 0 over all columns: one value per row; several may be parts of one tensor
};

inline constexpr std::size_t most_products = 4;  // of a kernel
inline constexpr int64_t most_parts = 4;         // of a value, of which a thread computes an element each

// Products of matrices: each element is a sum of `depth` terms, left times right. Along the domain, an operand's
// strides are 0 in the dimensions that only the other one has. One left factor may have several right ones, which lie
// in memory in the same way: each makes a product of its own.
struct body_product {
  int left = -1;            // operands
  std::vector<int> rights;  // at most most_products
  int64_t depth = 0;
  // Where the left factor is not the left operand's element itself, but made of it and of others' elements (in front of
  // the product): nodes as the body's, of which the last one is the factor.
  std::vector<body_node> left_made;
  // Where the left factor is made of another product (the node of that kind in left_made) of so many terms: its left
  // factor is the left operand, its right one this operand.
  int inner_right = -1;
  int64_t inner_depth = 0;
  // Where other values choose the rows of the left operand (see body_operand::lookup_stride): the operand with their
  // numbers.
  int left_rows = -1;
  // Where the factors, as matrices of rows and terms, or of terms and columns, are not known to be zero.
  band left_band, right_band;

  // What the left factor is made of, the left operand first.
  std::vector<int> operands_of_left() const;
};

// How windows slide along a dimension of a tensor, in a kernel whose rows are windows, and whose columns are their
// elements.
struct body_window {
  work_parts::window walk;
  int row = -1, column = -1;  // the dimensions of positions and taps in the domain; -1: there is only one
};

struct kernel_body {
  std::vector<int64_t> domain;
  int row_dims = 0;              // how many leading dimensions index the rows
  std::vector<body_node> nodes;  // operands before their users
  std::vector<body_operand> operands;
  std::vector<body_result> results;
  // Where rows are windows: along which dimensions. Strides say how far consecutive windows and their elements are
  // apart, and operands begin with the tensor's first element, `padding` elements behind the first window's.
  std::vector<body_window> windows;
  std::optional<body_product> product;  // what nodes of that kind are

  int64_t rows() const;
  int64_t columns() const;
  bool has(node_kind kind) const;
  bool has_reduction() const { return has(node_kind::reduce) || has_scan(); }
  bool has_scan() const { return has(node_kind::scan); }
  bool is_elementwise() const { return row_dims == static_cast<int>(domain.size()); }  // no columns
};

// The kernel of a set of steps; its results are the values that are read outside of the set. errc::unsupported with the
// reason where the steps cannot be one kernel.
expected<kernel_body> build_body(const graph& g, const std::vector<int>& steps);

// The role of an operator in a kernel; `other` cannot be in one.
enum class operator_family { other, pointwise, reduction, normalization, scan, view, product };
operator_family family_of(const graph_step& s);

// Whether rows are adjacent in memory and columns are not: then a thread takes a tile of rows.
bool has_adjacent_rows(const kernel_body& body);

// Puts the dimensions of the rows, and those of the columns, in the order in which the first result that has one value
// per element has them in memory, or else the largest operand. Not of a product, whose dimensions have roles.
void order_dimensions(kernel_body& body);

// Gives the factors of a product the other's place where only the left one differs along the columns of the rows that
// follow it (batch norm over the batch): a tile then has whole rows.
void put_columns_in_right_factor(kernel_body& body);

// Merges adjacent dimensions that every operand traverses with one stride, and removes those of size 1.
void collapse_dimensions(kernel_body& body);

}  // namespace cudal1
