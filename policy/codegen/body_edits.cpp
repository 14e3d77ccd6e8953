#include "policy/codegen/body_edits.hpp"

#include <utility>

namespace cudal1 {

int add_load(kernel_body& body, body_operand from, bool per_row) {
  body_node load;
  load.kind = node_kind::load;
  load.type = from.type.type;
  load.value = from.value;
  load.operand = static_cast<int>(body.operands.size());
  load.per_row = per_row;
  load.cost = 0;
  body.operands.push_back(std::move(from));
  body.nodes.push_back(std::move(load));
  return static_cast<int>(body.nodes.size()) - 1;
}

void tidy(kernel_body& body) {
  std::vector<int> place(body.nodes.size(), -1);
  std::vector<body_node> nodes;
  std::vector<body_operand> operands;
  const auto visit = [&](const auto& self, int n) -> int {
    auto& at = place[static_cast<std::size_t>(n)];
    if (at >= 0) return at;
    body_node copy = body.nodes[static_cast<std::size_t>(n)];
    for (auto& o : copy.operands)
      o = self(self, o);
    if (copy.kind == node_kind::load) {
      operands.push_back(body.operands[static_cast<std::size_t>(copy.operand)]);
      copy.operand = static_cast<int>(operands.size()) - 1;
    }
    nodes.push_back(std::move(copy));
    return at = static_cast<int>(nodes.size()) - 1;
  };
  for (auto& r : body.results)
    r.node = visit(visit, r.node);
  body.nodes = std::move(nodes);
  body.operands = std::move(operands);
}

}  // namespace cudal1
