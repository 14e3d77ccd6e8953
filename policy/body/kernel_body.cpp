#include "policy/body/kernel_body.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace cudal1 {

namespace {

int64_t product_of(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

template <typename Predicate>
std::vector<int64_t> extents_where(const std::vector<body_axis>& axes, Predicate&& is_meant) {
  std::vector<int64_t> out;
  for (const auto& a : axes)
    if (is_meant(a)) out.push_back(a.extent);
  return out;
}

}  // namespace

std::vector<body_axis> parallel_axes(const std::vector<int64_t>& extents) {
  std::vector<body_axis> out;
  for (const auto extent : extents)
    out.push_back({extent, axis_role::parallel});
  return out;
}

int kernel_body::row_dims() const {
  return static_cast<int>(std::ranges::count(axes, axis_role::parallel, &body_axis::role));
}

int kernel_body::dims() const {
  return static_cast<int>(axes.size() -
                          static_cast<std::size_t>(std::ranges::count(axes, axis_role::contracted, &body_axis::role)));
}

std::vector<int64_t> kernel_body::extents() const {
  return extents_where(axes, [](const body_axis& a) { return a.role != axis_role::contracted; });
}

std::vector<int64_t> kernel_body::row_extents() const {
  return extents_where(axes, [](const body_axis& a) { return a.role == axis_role::parallel; });
}

std::vector<int64_t> kernel_body::column_extents() const {
  return extents_where(axes, [](const body_axis& a) { return a.is_column(); });
}

int64_t kernel_body::rows() const {
  return product_of(row_extents());
}

int64_t kernel_body::columns() const {
  return product_of(column_extents());
}

bool kernel_body::has(node_kind kind) const {
  return std::ranges::any_of(nodes, [&](const auto& n) { return n.kind == kind; });
}

bool kernel_body::is_one_per_row(const std::vector<int64_t>& strides) const {
  return std::all_of(strides.begin() + row_dims(), strides.begin() + dims(), [](int64_t s) { return s == 0; });
}

const std::vector<int>& kernel_body::uncontracted_operands(int node) const {
  static const std::vector<int> none;
  const body_node& n = nodes[static_cast<std::size_t>(node)];
  return n.kind == node_kind::contraction ? none : n.operands;
}

std::set<int> kernel_body::needed() const {
  std::set<int> out;
  std::vector<int> reach;
  for (const auto& r : results)
    reach.push_back(r.node);
  while (!reach.empty()) {
    const int n = reach.back();
    reach.pop_back();
    if (!out.insert(n).second) continue;
    const auto& operands = uncontracted_operands(n);
    reach.insert(reach.end(), operands.begin(), operands.end());
  }
  return out;
}

std::set<int> kernel_body::inside_contractions() const {
  std::set<int> out;
  const std::set<int> evaluated = needed();
  for (const int n : evaluated)
    if (nodes[static_cast<std::size_t>(n)].kind == node_kind::contraction)
      for (const int each : made_of(nodes[static_cast<std::size_t>(n)].operands))
        if (!evaluated.contains(each)) out.insert(each);
  return out;
}

std::vector<int> kernel_body::made_of(const std::vector<int>& of) const {
  std::vector<int> out;
  std::vector<char> seen(nodes.size(), 0);
  const auto visit = [&](const auto& self, int n) -> void {
    auto& known = seen[static_cast<std::size_t>(n)];
    if (known != 0) return;
    known = 1;
    for (const int o : nodes[static_cast<std::size_t>(n)].operands)
      self(self, o);
    out.push_back(n);
  };
  for (const int n : of)
    visit(visit, n);
  return out;
}

const divided_axis* body_access::division_of(std::size_t axis) const {
  const auto found = std::ranges::find(divided, static_cast<int>(axis), &divided_axis::axis);
  return found == divided.end() ? nullptr : &*found;
}

index_expr offset_in(const body_access& o, std::span<const index_expr> at, std::size_t first) {
  std::vector<int64_t> strides(o.strides.begin() + static_cast<std::ptrdiff_t>(first),
                               o.strides.begin() + static_cast<std::ptrdiff_t>(first + at.size()));
  for (std::size_t i = 0; i < at.size(); ++i)
    if (o.division_of(first + i) != nullptr) strides[i] = 0;
  index_expr out = offset_of(at, strides);
  for (std::size_t i = 0; i < at.size(); ++i)
    if (const divided_axis* d = o.division_of(first + i))
      out = out + at[i] / d->divisor * d->outer_stride + at[i] % d->divisor * d->inner_stride;
  return out;
}

bool has_adjacent_rows(const kernel_body& body) {
  if (body.row_dims() == 0 || body.is_elementwise()) return false;
  const auto row = static_cast<std::size_t>(body.row_dims()) - 1;
  const auto column = static_cast<std::size_t>(body.dims()) - 1;
  int64_t evaluated = 0, along = 0;
  for (const auto& o : body.accesses) {
    // What is one per row is read once per row, whatever its layout.
    if (body.is_one_per_row(o)) continue;
    if (o.strides[row] == 1) ++evaluated;
    // What is the same for adjacent rows is read once for them, from a cache.
    if (o.strides[column] == 1 && o.strides[row] != 0) ++along;
  }
  return evaluated > along && body.extent(row) >= 8;
}

namespace {

std::vector<std::vector<int64_t>*> strides_of_tensors(kernel_body& body) {
  std::vector<std::vector<int64_t>*> all;
  for (auto& o : body.accesses)
    all.push_back(&o.strides);
  for (auto& r : body.results)
    all.push_back(&r.target.strides);
  return all;
}

// Where a body names its axes.
std::vector<int*> named_axes(kernel_body& body) {
  std::vector<int*> out;
  for (auto& o : body.accesses)
    for (auto& d : o.divided)
      out.push_back(&d.axis);
  for (auto& w : body.windows)
    for (int* each : {&w.row, &w.column})
      if (*each >= 0) out.push_back(each);
  return out;
}

// The tensor whose order in memory a kernel follows; null where it reads nothing and has no such result.
const body_access* leading_tensor(const kernel_body& body) {
  for (const auto& r : body.results)
    if (body.is_elementwise() || !body.is_one_per_row(r.target)) return &r.target;
  const auto elements = [](const body_access& o) { return o.type.numel(); };
  const auto largest = std::ranges::max_element(body.accesses, {}, elements);
  return largest == body.accesses.end() ? nullptr : &*largest;
}

void erase_axis(kernel_body& body, std::size_t a) {
  const auto at = static_cast<std::ptrdiff_t>(a);
  body.axes.erase(body.axes.begin() + at);
  for (auto* s : strides_of_tensors(body))
    s->erase(s->begin() + at);
  for (int* each : named_axes(body)) {
    const auto axis = static_cast<std::size_t>(*each);
    *each = axis == a ? -1 : axis > a ? *each - 1 : *each;
  }
  for (auto& o : body.accesses)
    std::erase_if(o.divided, [](const divided_axis& d) { return d.axis < 0; });
  for (auto& n : body.nodes)
    if (n.axis > static_cast<int>(a)) --n.axis;
}

}  // namespace

void order_axes(kernel_body& body) {
  const body_access* leading = body.has_contraction() ? nullptr : leading_tensor(body);
  if (leading == nullptr) return;
  std::vector<std::size_t> order(body.axes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t d) { return -leading->strides[d]; };
  const auto columns = order.begin() + body.row_dims();
  std::ranges::stable_sort(order.begin(), columns, {}, key);
  std::ranges::stable_sort(columns, order.end(), {}, key);
  const auto reorder = [&](auto& values) {
    auto out = values;
    for (std::size_t d = 0; d < order.size(); ++d)
      out[d] = values[order[d]];
    values = std::move(out);
  };
  reorder(body.axes);
  for (auto* strides : strides_of_tensors(body))
    reorder(*strides);
  for (int* axis : named_axes(body))
    *axis = static_cast<int>(std::ranges::find(order, static_cast<std::size_t>(*axis)) - order.begin());
}

void put_columns_in_b(kernel_body& body) {
  if (body.is_elementwise() || !body.windows.empty() ||
      std::ranges::count(body.nodes, node_kind::contraction, &body_node::kind) != 1)
    return;
  body_node& product = *std::ranges::find(body.nodes, node_kind::contraction, &body_node::kind);
  const auto strides_of = [&](int operand) -> const std::vector<int64_t>* {
    const body_node& n = body.nodes[static_cast<std::size_t>(operand)];
    const bool is_plain = n.kind == node_kind::load && n.operands.empty();
    return is_plain ? &body.accesses[static_cast<std::size_t>(n.access)].strides : nullptr;
  };
  const auto *a = strides_of(product.operands[0]), *b = strides_of(product.operands[1]);
  if (a == nullptr || b == nullptr) return;
  for (auto d = static_cast<std::size_t>(body.row_dims()); d < static_cast<std::size_t>(body.dims()); ++d)
    if ((*a)[d] == 0 || (*b)[d] != 0) return;
  std::swap(product.operands[0], product.operands[1]);
  std::swap(product.a_band, product.b_band);
  product.a_band = product.a_band.transposed();
  product.b_band = product.b_band.transposed();
}

void collapse_axes(kernel_body& body) {
  const auto all = strides_of_tensors(body);
  const auto is_named = [&](std::size_t d) {
    return std::ranges::any_of(named_axes(body), [&](const int* each) { return *each == static_cast<int>(d); });
  };
  for (auto d = static_cast<std::size_t>(body.dims()); d-- > 0;) {
    if (body.extent(d) == 1) erase_axis(body, d);
  }
  for (auto d = static_cast<std::size_t>(body.dims()); d-- > 1;) {
    if (static_cast<int>(d) == body.row_dims()) continue;  // a row's and a column's axis do not merge
    if (is_named(d - 1) || is_named(d)) continue;
    const bool one_walk =
        std::all_of(all.begin(), all.end(), [&](const auto* s) { return (*s)[d - 1] == (*s)[d] * body.extent(d); });
    if (!one_walk) continue;
    for (auto* s : all)
      (*s)[d - 1] = (*s)[d];
    body.axes[d - 1].extent *= body.extent(d);
    erase_axis(body, d);
  }
}

}  // namespace cudal1
