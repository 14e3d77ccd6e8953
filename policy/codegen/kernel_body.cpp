#include "policy/codegen/kernel_body.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace cudal1 {

bool is_one_per_row(const std::vector<int64_t>& strides, int row_dims) {
  return std::all_of(strides.begin() + row_dims, strides.end(), [](int64_t s) { return s == 0; });
}

int64_t kernel_body::rows() const {
  return std::accumulate(domain.begin(), domain.begin() + row_dims, int64_t{1}, std::multiplies<>());
}

int64_t kernel_body::columns() const {
  return std::accumulate(domain.begin() + row_dims, domain.end(), int64_t{1}, std::multiplies<>());
}

bool kernel_body::has(node_kind kind) const {
  return std::ranges::any_of(nodes, [&](const auto& n) { return n.kind == kind; });
}

std::vector<int> body_product::operands_of_left() const {
  std::vector<int> out = {left};
  if (left_rows >= 0) out.push_back(left_rows);
  if (inner_right >= 0) out.push_back(inner_right);
  for (const auto& n : left_made)
    if (n.kind == node_kind::load && n.operand != left) out.push_back(n.operand);
  return out;
}

bool has_adjacent_rows(const kernel_body& body) {
  if (body.row_dims == 0 || body.is_elementwise()) return false;
  const auto row = static_cast<std::size_t>(body.row_dims) - 1;
  const auto column = body.domain.size() - 1;
  int64_t beside = 0, along = 0;
  for (const auto& o : body.operands) {
    // A per-row operand is read once per row, whatever its layout.
    if (is_one_per_row(o.strides, body.row_dims)) continue;
    if (o.strides[row] == 1) ++beside;
    // What is the same for adjacent rows is read once for them, from a cache.
    if (o.strides[column] == 1 && o.strides[row] != 0) ++along;
  }
  return beside > along && body.domain[row] >= 8;
}

namespace {

std::vector<std::vector<int64_t>*> strides_of_tensors(kernel_body& body) {
  std::vector<std::vector<int64_t>*> all;
  for (auto& o : body.operands)
    all.push_back(&o.strides);
  for (auto& r : body.results)
    all.push_back(&r.target.strides);
  return all;
}

std::vector<int*> dimensions_of_windows(kernel_body& body) {
  std::vector<int*> out;
  for (auto& w : body.windows)
    for (int* each : {&w.row, &w.column})
      if (*each >= 0) out.push_back(each);
  return out;
}

// The tensor whose order in memory a kernel follows; null where it reads nothing and has no such result.
const body_operand* leading_tensor(const kernel_body& body) {
  for (const auto& r : body.results)
    if (body.is_elementwise() || !is_one_per_row(r.target.strides, body.row_dims)) return &r.target;
  const auto elements = [](const body_operand& o) { return o.type.numel(); };
  const auto largest = std::ranges::max_element(body.operands, {}, elements);
  return largest == body.operands.end() ? nullptr : &*largest;
}

}  // namespace

void order_dimensions(kernel_body& body) {
  const body_operand* leading = body.product ? nullptr : leading_tensor(body);
  if (leading == nullptr) return;
  std::vector<std::size_t> order(body.domain.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t d) { return -leading->strides[d]; };
  const auto columns = order.begin() + body.row_dims;
  std::ranges::stable_sort(order.begin(), columns, {}, key);
  std::ranges::stable_sort(columns, order.end(), {}, key);
  const auto reorder = [&](std::vector<int64_t>& values) {
    std::vector<int64_t> out;
    for (const std::size_t d : order)
      out.push_back(values[d]);
    values = std::move(out);
  };
  reorder(body.domain);
  for (auto* strides : strides_of_tensors(body))
    reorder(*strides);
  for (auto* dimension : dimensions_of_windows(body))
    *dimension = static_cast<int>(std::ranges::find(order, static_cast<std::size_t>(*dimension)) - order.begin());
}

void put_columns_in_right_factor(kernel_body& body) {
  if (!body.product || body.is_elementwise()) return;
  body_product& p = *body.product;
  if (p.rights.size() != 1 || !p.left_made.empty() || p.left_rows >= 0) return;
  const auto& left = body.operands[static_cast<std::size_t>(p.left)].strides;
  const auto& right = body.operands[static_cast<std::size_t>(p.rights.front())].strides;
  for (auto d = static_cast<std::size_t>(body.row_dims); d < body.domain.size(); ++d)
    if (left[d] == 0 || right[d] != 0) return;
  std::swap(p.left, p.rights.front());
  std::swap(p.left_band, p.right_band);
  p.left_band = p.left_band.transposed();
  p.right_band = p.right_band.transposed();
}

void collapse_dimensions(kernel_body& body) {
  const auto all = strides_of_tensors(body);
  const auto erase = [&](std::size_t d) {
    body.domain.erase(body.domain.begin() + static_cast<std::ptrdiff_t>(d));
    for (auto* s : all)
      s->erase(s->begin() + static_cast<std::ptrdiff_t>(d));
    if (static_cast<int>(d) < body.row_dims) --body.row_dims;
    for (int* each : dimensions_of_windows(body)) {
      const auto dimension = static_cast<std::size_t>(*each);
      *each = dimension == d ? -1 : dimension > d ? *each - 1 : *each;
    }
  };
  const auto slides = [&](std::size_t d) {
    return std::ranges::any_of(dimensions_of_windows(body),
                               [&](const int* each) { return *each == static_cast<int>(d); });
  };
  for (std::size_t d = body.domain.size(); d-- > 0;) {
    if (body.domain[d] == 1) erase(d);
  }
  for (std::size_t d = body.domain.size(); d-- > 1;) {
    if (static_cast<int>(d) == body.row_dims) continue;  // a row and a column dimension do not merge
    if (slides(d - 1) || slides(d)) continue;
    const bool one_walk =
        std::all_of(all.begin(), all.end(), [&](const auto* s) { return (*s)[d - 1] == (*s)[d] * body.domain[d]; });
    if (!one_walk) continue;
    for (auto* s : all)
      (*s)[d - 1] = (*s)[d];
    body.domain[d - 1] *= body.domain[d];
    erase(d);
  }
}

}  // namespace cudal1
