// How the contractions of a body are a product of matrices with one A: what the kernels of products can compute.
#pragma once

#include <vector>

#include "policy/body/kernel_body.hpp"

namespace cudal1 {

inline constexpr std::size_t most_products = 4;  // of a kernel

// C = A B for one or several Bs that lie in memory in the same way, each a sum over `k`. Along the parallel axes and
// columns, A's strides are 0 where only B differs, and B's where only A does.
struct matrix_product {
  std::vector<int> nodes;  // the contractions, one for each B
  int axis = -1;           // the contracted one
  int64_t k = 0;
  int a = -1;           // the access that has an element for each of A's
  std::vector<int> bs;  // accesses; at most most_products
  // Where A is not that element itself, the nodes that it is made of, the last one A.
  std::vector<int> a_nodes;
  // Where A is made of another product (the contraction in a_nodes): `a` is its A, and these its B, its contracted axis
  // and its k.
  int inner_b = -1, inner_axis = -1;
  int64_t inner_k = 0;
  // Where other values choose the rows of `a` (see body_access::gather_stride): the access with their numbers.
  int a_rows = -1;
  band a_band, b_band;  // see body_node; where all Bs have the same

  std::vector<int> accesses_of_a(const kernel_body& body) const;  // `a` first
  // Which of the Bs a contraction has.
  int number_of(int node) const;
};

// The product of a body with contractions. errc::unsupported with the reason where it is no such product.
expected<matrix_product> matrix_product_of(const kernel_body& body);

}  // namespace cudal1
