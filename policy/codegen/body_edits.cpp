#include "policy/codegen/body_edits.hpp"

#include <algorithm>
#include <utility>

#include "policy/tile/c_text.hpp"

namespace cudal1 {

int add_node(kernel_body& body, body_node n) {
  body.nodes.push_back(std::move(n));
  return static_cast<int>(body.nodes.size()) - 1;
}

int add_load(kernel_body& body, body_operand from, bool per_row, std::vector<int> row) {
  body_node n;
  n.kind = node_kind::load;
  n.type = computed_in(from.type.type);
  n.value = from.value;
  n.operand = static_cast<int>(body.operands.size());
  n.operands = std::move(row);
  n.per_row = per_row;
  n.cost = 0;
  body.operands.push_back(std::move(from));
  return add_node(body, std::move(n));
}

int add_pointwise(kernel_body& body, std::string expression, std::vector<int> operands, bool per_row, int cost) {
  body_node n;
  n.expression = std::move(expression);
  n.operands = std::move(operands);
  n.per_row = per_row;
  n.cost = n.operations = cost;
  return add_node(body, std::move(n));
}

body_operand row_tensor(const kernel_body& body, const std::string& name, dtype type, int dims) {
  body_operand out;
  out.value = name;
  out.strides.assign(body.domain.size(), 0);
  int64_t below = 1;
  for (int d = dims; d-- > 0;) {
    out.strides[static_cast<std::size_t>(d)] = below;
    below *= body.domain[static_cast<std::size_t>(d)];
  }
  out.type = contiguous(type, {below});
  return out;
}

void tidy(kernel_body& body) {
  std::vector<int> place(body.nodes.size(), -1);
  std::vector<body_node> nodes;
  std::vector<body_operand> operands;
  const auto kept = [&](int& operand) {
    operands.push_back(body.operands[static_cast<std::size_t>(operand)]);
    operand = static_cast<int>(operands.size()) - 1;
  };
  if (body.product) {
    kept(body.product->left);
    std::ranges::for_each(body.product->rights, kept);
  }
  const auto visit = [&](const auto& self, int n) -> int {
    auto& at = place[static_cast<std::size_t>(n)];
    if (at >= 0) return at;
    body_node copy = body.nodes[static_cast<std::size_t>(n)];
    for (auto& o : copy.operands)
      o = self(self, o);
    if (copy.kind == node_kind::load) kept(copy.operand);
    nodes.push_back(std::move(copy));
    return at = static_cast<int>(nodes.size()) - 1;
  };
  for (auto& r : body.results)
    r.node = visit(visit, r.node);
  body.nodes = std::move(nodes);
  body.operands = std::move(operands);
}

}  // namespace cudal1
