#include "policy/codegen/cpu/split_single_row.hpp"

#include <algorithm>

namespace cudal1 {

namespace {

constexpr int64_t k_split_from = 1 << 15;     // minimum elements of a row that is split
constexpr int64_t k_part_elements = 1 << 14;  // of a part, approximately

// Whether all results are of the row, and follow from reductions of what is in front of them.
bool is_of_one_round(const kernel_body& whole) {
  for (const auto& o : whole.accesses)
    if (!o.divided.empty()) return false;
  for (const auto& r : whole.results)
    if (std::any_of(r.target.strides.begin(), r.target.strides.end(), [](int64_t s) { return s != 0; })) return false;
  std::vector<bool> behind(whole.nodes.size(), false);  // nodes that depend on a reduction
  for (std::size_t i = 0; i < whole.nodes.size(); ++i) {
    const auto& n = whole.nodes[i];
    for (const int o : n.operands)
      behind[i] = behind[i] || behind[static_cast<std::size_t>(o)];
    if (behind[i] && (n.kind == node_kind::reduce || !n.per_row)) return false;
    if (n.kind == node_kind::reduce) behind[i] = true;
  }
  return true;
}

// The elements of a part: a divisor of the row's; 0 for none.
int64_t part_size(int64_t row) {
  for (int64_t size = k_part_elements; size <= 4 * k_part_elements; ++size)
    if (row % size == 0) return size;
  for (int64_t size = k_part_elements; size >= k_part_elements / 8; --size)
    if (row % size == 0) return size;
  return 0;
}

// Makes each part a row; false where there are no parts.
bool cut_row(kernel_body& parts) {
  if (parts.dims() == 1) {
    const int64_t size = part_size(parts.extent(0));
    if (size == 0) return false;
    parts.axes = {{parts.extent(0) / size, axis_role::parallel}, {size, axis_role::reduced}};
    for (auto& o : parts.accesses)
      o.strides = {o.strides[0] * size, o.strides[0]};
  }
  parts.axes.front().role = axis_role::parallel;
  return parts.extent(0) > 1;
}

// Moves a reduction's parts into the first phase's results: in the second phase they replace the elements. False where
// another reduction reads these elements, too: each would need a load of its own.
bool move_reduction(two_phases& out, const kernel_body& whole, std::size_t reduction, const std::string& prefix) {
  const int from = whole.nodes[reduction].operands[0];
  const auto readers = std::count_if(whole.nodes.begin(), whole.nodes.end(), [&](const auto& n) {
    return n.kind == node_kind::reduce && n.operands[0] == from;
  });
  if (readers > 1) return false;
  body_access partial;
  partial.value = fmt::format("{}_part{}", prefix, out.parts.results.size());
  partial.type = contiguous(dtype::float32, {out.parts.extent(0)});
  partial.strides.assign(out.parts.axes.size(), 0);
  partial.strides[0] = 1;
  out.parts.results.push_back({static_cast<int>(reduction), partial});
  body_node load;
  load.kind = node_kind::load;
  load.value = partial.value;
  load.access = static_cast<int>(out.total.accesses.size());
  partial.strides = {1};
  out.total.accesses.push_back(std::move(partial));
  out.total.nodes[static_cast<std::size_t>(from)] = std::move(load);
  return true;
}

// Whether a result of the second phase reads nothing that only the first one has.
bool reads_parts_only(const kernel_body& total, int result) {
  std::vector<int> reach{result};
  while (!reach.empty()) {
    const auto& n = total.nodes[static_cast<std::size_t>(reach.back())];
    reach.pop_back();
    if (n.kind == node_kind::load && n.access < 0) return false;
    reach.insert(reach.end(), n.operands.begin(), n.operands.end());
  }
  return true;
}

}  // namespace

std::optional<two_phases> split_single_row(const kernel_body& whole, const std::string& prefix) {
  if (whole.rows() != 1 || whole.row_dims() != 0 || whole.columns() < k_split_from || whole.has_scan() ||
      !is_of_one_round(whole))
    return std::nullopt;
  two_phases out{whole, whole};
  if (!cut_row(out.parts)) return std::nullopt;
  out.parts.results.clear();
  out.total.axes = {{out.parts.extent(0), axis_role::reduced}};
  out.total.accesses.clear();
  for (auto& r : out.total.results)
    r.target.strides = {0};
  for (std::size_t i = 0; i < whole.nodes.size(); ++i)
    if (whole.nodes[i].kind == node_kind::reduce && !move_reduction(out, whole, i, prefix)) return std::nullopt;
  // Loads of per-row values that only the first phase reads have no operand in the second.
  for (auto& n : out.total.nodes)
    if (n.kind == node_kind::load && n.value.rfind(prefix + "_part", 0) != 0) n.access = -1;
  const bool complete = std::all_of(out.total.results.begin(), out.total.results.end(),
                                    [&](const auto& r) { return reads_parts_only(out.total, r.node); });
  return complete ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace cudal1
