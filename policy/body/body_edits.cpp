#include "policy/body/body_edits.hpp"

#include <algorithm>
#include <utility>

#include "policy/tile/c_text.hpp"

namespace cudal1 {

int add_node(kernel_body& body, body_node n) {
  body.nodes.push_back(std::move(n));
  return static_cast<int>(body.nodes.size()) - 1;
}

int add_load(kernel_body& body, body_access from, values_per each, std::vector<int> row) {
  body_node n;
  n.kind = node_kind::load;
  n.type = computed_in(from.type.type);
  n.value = from.value;
  n.access = static_cast<int>(body.accesses.size());
  n.operands = std::move(row);
  n.per_row = each == values_per::row;
  n.cost = 0;
  body.accesses.push_back(std::move(from));
  return add_node(body, std::move(n));
}

int add_pointwise(kernel_body& body, std::string expression, std::vector<int> operands, values_per each, int cost) {
  body_node n;
  n.expression = std::move(expression);
  n.operands = std::move(operands);
  n.per_row = each == values_per::row;
  n.cost = n.operations = cost;
  return add_node(body, std::move(n));
}

body_access row_tensor(const kernel_body& body, const std::string& name, dtype type, int dims) {
  body_access out;
  out.value = name;
  out.strides.assign(body.axes.size(), 0);
  int64_t below = 1;
  for (auto d = static_cast<std::size_t>(dims); d-- > 0;) {
    out.strides[d] = below;
    below *= body.extent(d);
  }
  out.type = contiguous(type, {below});
  return out;
}

void keep_nodes(kernel_body& body, const std::vector<int>& kept) {
  std::vector<int> place(body.nodes.size(), -1);
  std::vector<body_node> nodes;
  std::vector<body_access> accesses;
  for (const int n : kept) {
    place[static_cast<std::size_t>(n)] = static_cast<int>(nodes.size());
    body_node& each = nodes.emplace_back(body.nodes[static_cast<std::size_t>(n)]);
    for (int& o : each.operands)
      o = place[static_cast<std::size_t>(o)];
    if (each.kind != node_kind::load) continue;
    accesses.push_back(body.accesses[static_cast<std::size_t>(each.access)]);
    each.access = static_cast<int>(accesses.size()) - 1;
  }
  for (auto& r : body.results)
    r.node = place[static_cast<std::size_t>(r.node)];
  body.nodes = std::move(nodes);
  body.accesses = std::move(accesses);
}

void tidy(kernel_body& body) {
  std::vector<int> results;
  for (const auto& r : body.results)
    results.push_back(r.node);
  keep_nodes(body, body.made_of(results));
}

void make_elementwise(kernel_body& body) {
  for (auto& a : body.axes)
    if (a.is_column()) a.role = axis_role::parallel;
}

void drop_contracted_axes(kernel_body& body) {
  const auto kept = static_cast<std::size_t>(body.dims());
  body.axes.resize(kept);
  for (auto& a : body.accesses)
    a.strides.resize(kept);
  for (auto& r : body.results)
    r.target.strides.resize(kept);
}

}  // namespace cudal1
