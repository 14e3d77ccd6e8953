#include "policy/codegen/cuda/split_rows.hpp"

#include <algorithm>

#include "policy/body/body_edits.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"

namespace cudal1 {

namespace {

// Row blocks that keep a large GPU busy: for some more a second kernel does not pay off.
constexpr int64_t k_enough_blocks = 3 * large_gpu_processors / 4;
constexpr int64_t k_min_split_elements = 1 << 15;       // minimum elements for which a second kernel pays off
constexpr int64_t k_blocks = 4 * large_gpu_processors;  // after the split, approximately
constexpr int64_t k_part_along = 4096;                  // minimum elements of a part where columns are contiguous
constexpr int64_t k_part_over_rows = 32;                // and where rows are contiguous

// The number of parts: a divisor of the outermost column dimension close to what fills the device; 1 for no split.
int64_t parts_of(const kernel_body& body, const row_layout& l) {
  const int64_t size = body.extent(static_cast<std::size_t>(body.row_dims()));
  const int64_t per_index = body.columns() / size;  // elements per index of that dimension
  const int64_t smallest = l.lanes_over_rows ? k_part_over_rows : k_part_along;
  const int64_t blocks = (body.rows() + l.rows - 1) / l.rows;
  const int64_t wanted = std::min(k_blocks / std::max<int64_t>(blocks, 1), body.columns() / smallest);
  const auto divides = [&](int64_t parts) { return size % parts == 0 && size / parts * per_index >= smallest / 4; };
  for (int64_t parts = wanted; parts <= std::min(4 * wanted, size) && wanted > 1; ++parts)
    if (divides(parts)) return parts;
  for (int64_t parts = std::min(wanted, size); parts > 1; --parts)
    if (divides(parts)) return parts;
  return 1;
}

// Splits the outermost column dimension of every tensor: the part becomes the first row dimension, the index within the
// part stays a column dimension.
void cut(kernel_body& body, int64_t parts) {
  const auto at = static_cast<std::size_t>(body.row_dims());
  const int64_t inside = body.extent(at) / parts;
  body.axes[at].extent = inside;
  body.axes.insert(body.axes.begin(), {parts, axis_role::parallel});
  for (auto& o : body.accesses) {
    const int64_t stride = o.strides[at];
    o.strides.insert(o.strides.begin(), stride * inside);
    o.aligned = o.aligned && stride * inside * size_of(o.type.type) % 16 == 0;
    for (auto& d : o.divided)
      ++d.axis;
  }
}

// The reductions of the first level: those that depend on no other reduction.
std::vector<int> first_round(const kernel_body& body, const pass_plan& plan) {
  std::vector<int> out;
  for (std::size_t n = 0; n < body.nodes.size(); ++n) {
    if (body.nodes[n].kind == node_kind::reduce && plan.level(static_cast<int>(n)) == 1)
      out.push_back(static_cast<int>(n));
  }
  return out;
}

bool only_row_results(const kernel_body& body, const pass_plan& plan) {
  return std::all_of(body.results.begin(), body.results.end(), [&](const auto& r) { return plan.is_row_result(r); });
}

// Sets the axes of the second kernel: (rows, parts).
void rows_and_parts(kernel_body& total, const kernel_body& parts) {
  total.axes.assign(parts.axes.begin() + 1, parts.axes.begin() + parts.row_dims());
  total.axes.push_back({parts.extent(0), axis_role::reduced});
}

body_access as_part(const body_access& partial, int row_dims) {
  body_access out = partial;
  out.strides.assign(partial.strides.begin() + 1, partial.strides.begin() + row_dims);
  out.strides.push_back(partial.strides[0]);
  return out;
}

// The kernel of the first round: a partial result of each reduction for each part.
kernel_body kernel_of_parts(const kernel_body& whole, const std::vector<int>& sums, int64_t count,
                            const std::string& prefix) {
  kernel_body parts = whole;
  cut(parts, count);
  parts.results.clear();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const dtype type = whole.nodes[static_cast<std::size_t>(sums[i])].type;
    parts.results.push_back({sums[i], row_tensor(parts, fmt::format("{}_part{}", prefix, i), type, parts.row_dims())});
  }
  return parts;
}

// An access of the second kernel, which has one element a row.
body_access of_rows(body_access o, const kernel_body& whole) {
  o.strides.resize(static_cast<std::size_t>(whole.row_dims()));
  o.strides.push_back(0);
  std::erase_if(o.divided, [&](const divided_axis& d) { return d.axis >= whole.row_dims(); });
  return o;
}

// The second kernel: what follows from the reductions, of which it reads the parts.
kernel_body kernel_of_totals(const kernel_body& whole, const kernel_body& parts, const std::vector<int>& sums) {
  kernel_body total = whole;
  rows_and_parts(total, parts);
  for (auto& o : total.accesses)
    o = of_rows(std::move(o), whole);
  for (auto& r : total.results)
    r.target = of_rows(std::move(r.target), whole);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const int load = add_load(total, as_part(parts.results[i].target, parts.row_dims()), values_per::element);
    total.nodes[static_cast<std::size_t>(sums[i])].operands = {load};
  }
  return total;
}

// The last kernel, which reads the reductions that the second one makes.
kernel_body kernel_of_rest(const kernel_body& whole, kernel_body& total, const std::vector<int>& sums,
                           const std::string& prefix) {
  kernel_body rest = whole;
  total.results.clear();
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto sum = static_cast<std::size_t>(sums[i]);
    body_access value = row_tensor(total, fmt::format("{}_row{}", prefix, i), whole.nodes[sum].type, whole.row_dims());
    total.results.push_back({sums[i], value});
    value.strides.resize(static_cast<std::size_t>(whole.row_dims()));
    value.strides.resize(whole.axes.size(), 0);
    const int load = add_load(rest, std::move(value), values_per::row);
    for (auto& n : rest.nodes)
      std::replace(n.operands.begin(), n.operands.end(), sums[i], load);
    for (auto& r : rest.results)
      if (r.node == sums[i]) r.node = load;
  }
  return rest;
}

// The rest of a body as kernels: cut again where it has reductions.
std::vector<kernel_body> later_kernels(kernel_body rest, const std::string& prefix) {
  if (rest.has_reduction()) {
    auto later = split_rows(rest, prefix + "_then");
    if (later.empty()) later.push_back(std::move(rest));
    return later;
  }
  make_elementwise(rest);
  order_axes(rest);
  collapse_axes(rest);
  return {std::move(rest)};
}

}  // namespace

std::vector<kernel_body> split_rows(const kernel_body& whole, const std::string& prefix) {
  const row_layout layout = row_layout_of(whole, {});
  const auto outermost = static_cast<std::size_t>(whole.row_dims());
  if (std::ranges::any_of(whole.accesses, [&](const auto& o) { return o.division_of(outermost) != nullptr; }))
    return {};
  if (whole.has_scan() || whole.rows() * whole.columns() < k_min_split_elements ||
      (whole.rows() + layout.rows - 1) / layout.rows >= k_enough_blocks)
    return {};
  const pass_plan plan(whole);
  const std::vector<int> sums = first_round(whole, plan);
  const int64_t count = parts_of(whole, layout);
  if (sums.empty() || count < 2) return {};

  kernel_body parts = kernel_of_parts(whole, sums, count, prefix);
  kernel_body total = kernel_of_totals(whole, parts, sums);
  tidy(parts);
  // If all results are per row, the second kernel computes them; otherwise it computes the sums, and a third kernel the
  // rest.
  if (plan.passes() == 2 && only_row_results(whole, plan)) {
    tidy(total);
    return {std::move(parts), std::move(total)};
  }
  kernel_body rest = kernel_of_rest(whole, total, sums, prefix);
  if (plan.passes() <= 2) {
    // Per-row results are complete with the sums; only elements are left.
    for (const auto& r : whole.results)
      if (plan.is_row_result(r)) total.results.push_back({r.node, of_rows(r.target, whole)});
    std::erase_if(rest.results, [&](const auto& r) { return plan.is_row_result(r); });
  }
  tidy(total);
  tidy(rest);
  std::vector<kernel_body> out{std::move(parts), std::move(total)};
  for (auto& each : later_kernels(std::move(rest), prefix))
    out.push_back(std::move(each));
  return out;
}

}  // namespace cudal1
