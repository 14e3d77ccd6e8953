#include "policy/codegen/cuda/split_depth.hpp"

#include <algorithm>

#include "policy/codegen/body_edits.hpp"

namespace cudal1 {

namespace {

// One value for each element of the domain, contiguous in the domain's order, as often as there are parts.
body_operand sums_tensor(const kernel_body& body, const std::string& name, int64_t parts) {
  body_operand out;
  out.value = name;
  out.strides.assign(body.domain.size(), 0);
  int64_t below = 1;
  for (std::size_t d = body.domain.size(); d-- > 0;) {
    out.strides[d] = below;
    below *= body.domain[d];
  }
  out.type = contiguous(dtype::float32, {parts * below});
  return out;
}

}  // namespace

std::pair<kernel_body, kernel_body> split_depth(const kernel_body& whole, int64_t parts, const std::string& prefix) {
  const body_operand sums = sums_tensor(whole, prefix + "_sums", parts);
  kernel_body product;
  product.domain = whole.domain;
  product.row_dims = static_cast<int>(whole.domain.size());
  product.product = whole.product;
  product.product->left = 0;
  product.product->right = 1;
  product.operands = {whole.operands[static_cast<std::size_t>(whole.product->left)],
                      whole.operands[static_cast<std::size_t>(whole.product->right)]};
  product.nodes.emplace_back().kind = node_kind::product;
  product.results = {{0, sums}};

  kernel_body rest = whole;
  rest.product.reset();
  const auto at = static_cast<std::size_t>(std::ranges::find(rest.nodes, node_kind::product, &body_node::kind) -
                                           rest.nodes.begin());
  const int64_t elements = whole.rows() * whole.columns();
  int sum = -1;
  for (int64_t part = 0; part < parts; ++part) {
    body_operand from = sums;
    from.offset = part * elements;
    from.aligned = from.offset % 4 == 0;
    const int load = add_load(rest, std::move(from), false);
    if (part == 0) {
      sum = load;
      continue;
    }
    body_node added;
    added.expression = "$0 + $1";
    added.operands = {sum, load};
    rest.nodes.push_back(std::move(added));
    sum = static_cast<int>(rest.nodes.size()) - 1;
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
