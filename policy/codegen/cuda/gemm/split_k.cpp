#include "policy/codegen/cuda/gemm/split_k.hpp"

#include <algorithm>

#include "policy/body/body_edits.hpp"

namespace cudal1 {

namespace {

// The contraction that no other is made of: the last.
int outer_contraction(const kernel_body& body) {
  const auto last = std::ranges::find(body.nodes.rbegin(), body.nodes.rend(), node_kind::contraction, &body_node::kind);
  return static_cast<int>(body.nodes.rend() - last) - 1;
}

}  // namespace

std::pair<kernel_body, kernel_body> split_k(const kernel_body& whole, int64_t parts, const std::string& prefix) {
  const int64_t elements = whole.rows() * whole.columns();
  body_access sums = row_tensor(whole, prefix + "_sums", dtype::float32, whole.dims());
  sums.type = contiguous(dtype::float32, {parts * elements});
  const int at = outer_contraction(whole);
  kernel_body product = whole;
  make_elementwise(product);
  product.results = {{at, sums}};
  product.nodes[static_cast<std::size_t>(at)].value.clear();  // its sums are of parts of k
  tidy(product);

  kernel_body rest = whole;
  int sum = -1;
  for (int64_t part = 0; part < parts; ++part) {
    body_access from = sums;
    from.offset = part * elements;
    from.aligned = from.offset % 4 == 0;
    const int load = add_load(rest, std::move(from), values_per::element);
    sum = part == 0 ? load : add_pointwise(rest, "$0 + $1", {sum, load});
  }
  body_node& total = rest.nodes[static_cast<std::size_t>(at)];
  total.kind = node_kind::pointwise;
  total.expression = "$0";
  total.operands = {sum};
  total.cost = 1;
  tidy(rest);
  drop_contracted_axes(rest);
  collapse_axes(rest);
  return {std::move(product), std::move(rest)};
}

}  // namespace cudal1
