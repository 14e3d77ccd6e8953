#include "policy/codegen/cuda/gemm/split_depth.hpp"

#include <algorithm>

#include "policy/codegen/body_edits.hpp"

namespace cudal1 {

std::pair<kernel_body, kernel_body> split_depth(const kernel_body& whole, int64_t parts, const std::string& prefix) {
  const int64_t elements = whole.rows() * whole.columns();
  body_operand sums = row_tensor(whole, prefix + "_sums", dtype::float32, static_cast<int>(whole.domain.size()));
  sums.type = contiguous(dtype::float32, {parts * elements});
  kernel_body product;
  product.domain = whole.domain;
  product.row_dims = static_cast<int>(whole.domain.size());
  product.product = whole.product;
  product.operands = whole.operands;
  product.nodes.emplace_back().kind = node_kind::product;
  product.nodes.back().operand = 0;
  product.results = {{0, sums}};

  kernel_body rest = whole;
  rest.product.reset();
  const auto at = static_cast<std::size_t>(std::ranges::find(rest.nodes, node_kind::product, &body_node::kind) -
                                           rest.nodes.begin());
  int sum = -1;
  for (int64_t part = 0; part < parts; ++part) {
    body_operand from = sums;
    from.offset = part * elements;
    from.aligned = from.offset % 4 == 0;
    const int load = add_load(rest, std::move(from), false);
    sum = part == 0 ? load : add_pointwise(rest, "$0 + $1", {sum, load});
  }
  body_node& total = rest.nodes[at];
  total.kind = node_kind::pointwise;
  total.expression = "$0";
  total.operands = {sum};
  total.cost = 1;
  tidy(rest);
  collapse_dimensions(rest);
  return {std::move(product), std::move(rest)};
}

}  // namespace cudal1
