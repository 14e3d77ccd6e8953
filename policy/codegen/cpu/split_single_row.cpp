#include "policy/codegen/cpu/split_single_row.hpp"

#include <algorithm>

namespace cudal1 {

namespace {

constexpr int64_t k_split_from = 1 << 15;     // minimum elements of a row that is split
constexpr int64_t k_part_elements = 1 << 14;  // of a part, approximately

}  // namespace

std::optional<two_phases> split_single_row(const kernel_body& whole, const std::string& prefix) {
  if (whole.rows() != 1 || whole.row_dims() != 0 || whole.columns() < k_split_from || whole.has_scan())
    return std::nullopt;
  for (const auto& r : whole.results) {
    if (std::any_of(r.target.strides.begin(), r.target.strides.end(), [](int64_t s) { return s != 0; }))
      return std::nullopt;
  }
  std::vector<bool> behind(whole.nodes.size(), false);  // nodes that depend on a reduction
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    const auto& n = whole.nodes[i];
    for (const int o : n.operands)
      behind[i] = behind[i] || behind[static_cast<std::size_t>(o)];
    if (n.kind == node_kind::reduce && behind[i]) return std::nullopt;
    if (behind[i] && !n.per_row) return std::nullopt;
    if (n.kind == node_kind::reduce) behind[i] = true;
  }
  two_phases out{whole, whole};
  // Each part becomes a row.
  if (whole.dims() == 1) {
    int64_t part = 0;
    for (int64_t size = k_part_elements; size <= 4 * k_part_elements && part == 0; ++size)
      if (whole.extent(0) % size == 0) part = size;
    for (int64_t size = k_part_elements; size >= k_part_elements / 8 && part == 0; --size)
      if (whole.extent(0) % size == 0) part = size;
    if (part == 0) return std::nullopt;
    out.parts.axes = {{whole.extent(0) / part, axis_role::parallel}, {part, axis_role::reduced}};
    for (auto& o : out.parts.accesses)
      o.strides = {o.strides[0] * part, o.strides[0]};
  }
  out.parts.axes.front().role = axis_role::parallel;
  const int64_t count = out.parts.extent(0);
  if (count < 2) return std::nullopt;
  out.parts.results.clear();
  out.total.axes = {{count, axis_role::reduced}};
  out.total.accesses.clear();
  for (auto& r : out.total.results)
    r.target.strides = {0};
  std::vector<body_node> nodes;
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    if (whole.nodes[i].kind != node_kind::reduce) continue;
    body_access partial;
    partial.value = fmt::format("{}_part{}", prefix, out.parts.results.size());
    partial.type = contiguous(dtype::float32, {count});
    partial.strides.assign(out.parts.axes.size(), 0);
    partial.strides[0] = 1;
    out.parts.results.push_back({static_cast<int>(i), partial});
    // In the second phase the partial results replace the elements: the reduced node becomes a load of them.
    const auto from = static_cast<std::size_t>(whole.nodes[i].operands[0]);
    body_node load;
    load.kind = node_kind::load;
    load.value = partial.value;
    load.access = static_cast<int>(out.total.accesses.size());
    partial.strides = {1};
    out.total.accesses.push_back(std::move(partial));
    // Two reductions of one value would need one load each.
    const bool shared = std::count_if(whole.nodes.begin(), whole.nodes.end(), [&](const auto& n) {
                          return n.kind == node_kind::reduce && n.operands[0] == static_cast<int>(from);
                        }) > 1;
    if (shared) return std::nullopt;
    out.total.nodes[from] = std::move(load);
  }
  // Loads of per-row values that only the first phase reads have no operand in the second.
  for (std::size_t i = 0; i < out.total.nodes.size(); ++i) {
    const auto& n = out.total.nodes[i];
    if (n.kind == node_kind::load && n.value.rfind(prefix + "_part", 0) != 0) out.total.nodes[i].access = -1;
  }
  const auto reads_parts_only = [&](int root) {
    std::vector<int> reach{root};
    while (!reach.empty()) {
      const auto& n = out.total.nodes[static_cast<std::size_t>(reach.back())];
      reach.pop_back();
      if (n.kind == node_kind::load && n.access < 0) return false;
      reach.insert(reach.end(), n.operands.begin(), n.operands.end());
    }
    return true;
  };
  for (const auto& r : out.total.results) {
    if (!reads_parts_only(r.node)) return std::nullopt;
  }
  return out;
}

}  // namespace cudal1
