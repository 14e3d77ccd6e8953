#include "policy/body/body_builder.hpp"

#include <algorithm>
#include <numeric>
#include <span>

#include "policy/body/body_edits.hpp"
#include "policy/body/body_operators.hpp"
#include "policy/body/matrix_product.hpp"
#include "policy/body/memory_order.hpp"
#include "policy/body/operator_values.hpp"
#include "policy/body/operators/feature_pools.hpp"
#include "policy/body/operators/product_operators.hpp"
#include "policy/body/operators/window_operators.hpp"
#include "policy/graph/alignment.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/strides.hpp"

namespace cudal1 {

namespace {

// Internal operators have their own registry; ATen operators are found by their records.
const operator_builder* find_elementwise_builder(const graph_step& s) {
  if (s.use->record != nullptr && adds_up_channels(s)) return &convolution_builder();
  if (s.use->record != nullptr) return is_own_product(s) ? &product_builder() : find_pointwise(s);
  const body_operator* own = find_body_operator(s.op());
  return own != nullptr && own->elementwise ? &own->elementwise : nullptr;
}

}  // namespace

const row_operator* find_row_builder(const graph_step& s) {
  if (s.use->record != nullptr) {
    const auto* const of_windows = find_window_operator(s);
    return of_windows != nullptr ? of_windows : find_row_operator(s);
  }
  const body_operator* own = find_body_operator(s.op());
  return own != nullptr && own->rows ? &*own->rows : nullptr;
}

body_builder::body_builder(const graph& g, kernel_domain domain, const std::vector<int>& steps)
    : graph_(&g), domain_(std::move(domain)), steps_(steps.begin(), steps.end()) {
  pools_convolution_ = !domain_.rows.windows.empty() &&
                       std::ranges::any_of(steps, [&](int n) { return adds_up_channels(g.step_at(n)); });
  add_axes();
  add_scopes();
}

expected<void> body_builder::bind(const graph_step& s, std::size_t result, int n) {
  const tensor_type& type = s.result_types[result];
  const auto where = place_here(type.shape);
  if (!where)
    return fail(errc::unsupported, "the result of {} is {}, which is neither one value per element nor one per row",
                s.op(), type.text());
  if (memory_type(type.type).empty()) return fail(errc::unsupported, "kernels do not write {} yet", name_of(type.type));
  const bool is_full = type.shape == shape() && domain_.rows.windows.empty();
  const bool by_row = scope_now().kind == scope_kind::results && !is_full && !body_.is_elementwise();
  if (by_row && !has_columns(*where) && !node(n).per_row)
    return fail(errc::unsupported, "the result of {} differs along a row", s.op());
  const std::string& value = s.text->results[result];
  if (!value.empty()) bind_value(value, converted(n, type.type));
  return {};
}

void body_builder::bind_value(const std::string& value, int n) {
  // A node has one name; a second name for the same value (a view) gets a separate node.
  if (!node(n).value.empty() || node(n).kind == node_kind::load) n = pointwise("$0", {n}, node(n).type, 0);
  node(n).value = value;
  bound_[{now_, value}] = n;
}

// Views of the parts of a value that the kernel computes.
expected<void> body_builder::add_slices(const graph_step& s) {
  const std::string from = graph_->resolve(*tensor_argument_name(s, "self"));
  if (!is_computed(from) || graph_->type_of(from).shape != domain_.parts->whole)
    return fail(errc::unsupported, "{} takes slices of what the kernel does not compute", s.op());
  const int64_t size = domain_.parts->part[rules::at(domain_.parts->dim)];
  for (std::size_t r = 0; r < s.text->results.size(); ++r) {
    if (s.text->results[r].empty()) continue;
    const auto slice = place_of_slice(*graph_, s, r);
    if (!slice || slice->dim != domain_.parts->dim || slice->first % size != 0 ||
        s.result_types[r].shape != domain_.parts->part)
      return fail(errc::unsupported, "{} takes other slices than the rest of the kernel", s.op());
    CUDAL1_TRY(const int part, computed(from, first_part_ + static_cast<int>(slice->first / size)));
    CUDAL1_CHECK(bind(s, r, part));
  }
  return {};
}

expected<void> body_builder::add_feature_pool(const graph_step& s) {
  CUDAL1_CHECK(check_only_first_is_read(*this, s, "indices"));
  const std::string product = pool_of_features(*graph_, s)->product;
  if (!is_computed(product)) return fail(errc::unsupported, "{} pools what the kernel does not compute", s.op());
  std::vector<int> nodes;
  for (int64_t p = 0; p < domain_.parts->count; ++p) {
    CUDAL1_TRY(const int part, computed(product, first_part_ + static_cast<int>(p)));
    nodes.push_back(part);
  }
  const bool averages = s.record().traits.sums;
  int value = nodes.front();
  for (const int n : std::span(nodes).subspan(1))
    value = pointwise(averages ? "$0 + $1" : "$0 > $1 || $0 != $0 ? $0 : $1", {value, n});
  if (averages) value = divided(*this, value, static_cast<double>(domain_.parts->count));
  bind_value(s.text->results[0], value);
  return {};
}

expected<bool> body_builder::adds_parts(const graph_step& s) {
  if (!domain_.parts || is_in_operand()) return false;
  if (place_of_slice(*graph_, s, 0)) {
    CUDAL1_CHECK(add_slices(s));
    return true;
  }
  const auto pool = pool_of_features(*graph_, s);
  if (pool && pool->size == domain_.parts->count && graph_->type_of(pool->product).shape == domain_.parts->whole) {
    CUDAL1_CHECK(add_feature_pool(s));
    return true;
  }
  if (!is_unit_view(*graph_, s) || s.text->results[0].empty()) return false;
  const std::string from = graph_->resolve(*tensor_argument_name(s, "self"));
  if (!is_computed(from)) return false;
  CUDAL1_TRY(const int same, computed(from, now_));
  bound_[{now_, s.text->results[0]}] = same;
  return true;
}

expected<void> body_builder::add_step(const graph_step& s) {
  CUDAL1_TRY(const bool added, adds_parts(s));
  if (added) return {};
  if (const auto* build = find_elementwise_builder(s)) return (*build)(*this, s);
  if (const auto* row = find_row_builder(s)) {
    CUDAL1_TRY(const row_domain own, row->domain(*graph_, s));
    // (A reduction of per-row values is legal only over dimensions of size 1.)
    if (scope_now().kind != scope_kind::results || own != domain_.rows)
      return fail(errc::unsupported, "{} reduces other dimensions than the rest of the kernel", s.op());
    return row->build(*this, s);
  }
  return fail(errc::unsupported, "{} is neither a pointwise nor a row operator", s.op());
}

// A value that is read outside of the kernel.
expected<void> body_builder::add_results(const graph_step& s, std::size_t result) {
  const std::string& value = s.text->results[result];
  const tensor_type& type = s.result_types[result];
  const bool whole = domain_.parts && type.shape == domain_.parts->whole;
  if (!domain_.rows.windows.empty() && type.shape == domain_.rows.slid && type.shape != shape())
    return fail(errc::unsupported, "{} is computed for each window again, and read elsewhere", value);
  std::vector<int> nodes;
  for (int64_t p = 0; p < (whole ? domain_.parts->count : 1); ++p) {
    CUDAL1_TRY(const int n, computed(value, whole ? first_part_ + static_cast<int>(p) : 0));
    nodes.push_back(n);
  }
  const bool is_element = whole || type.shape == shape() || is_ungrouped(type.shape);
  const auto row = place_of_rows(type.shape);
  if (!is_element && !row && place_here(type.shape))
    return fail(errc::unsupported, "{} is smaller than what the kernel computes, and read elsewhere", value);
  const bool is_product = body_.has_contraction() && body_.windows.empty();
  if (!type.is_contiguous() && (is_product || !is_dense(type)))
    return fail(errc::unsupported,
                "{} is {}, but kernels write contiguous tensors, or these with their dimensions in another order where "
                "they make no product",
                value, type.text());
  if (domain_.parts && !row &&
      (type.dim() != std::ssize(domain_.parts->part) || (whole && !domain_.parts->covers_whole())))
    return fail(errc::unsupported, "{} is read outside of the kernel, which does not compute all of its elements",
                value);
  for (std::size_t p = 0; p < nodes.size(); ++p) {
    const place where = whole ? scopes_[rules::at(first_part_) + p].where : *place_here(type.shape);
    const int64_t offset = offset_at(type.strides, where);
    const bool aligned = offset * size_of(type.type) % 16 == 0;
    body_.results.push_back({nodes[p], {value, type, strides_at(type.strides, where), aligned, offset}});
  }
  return {};
}

expected<kernel_body> body_builder::build() && {
  for (const int number : steps_) {
    const graph_step& s = graph_->step_at(number);
    for (std::size_t r = 0; r < s.text->results.size(); ++r) {
      const std::string& value = s.text->results[r];
      if (value.empty()) continue;
      const auto& readers = graph_->readers(value);
      if (graph_->is_output(value) || std::ranges::any_of(readers, [&](int n) { return !steps_.contains(n); }))
        CUDAL1_CHECK(add_results(s, r));
    }
  }
  if (body_.results.empty()) return fail(errc::invalid_argument, "nothing reads the results of these steps");
  for (auto& r : body_.results)
    r.target.strides.resize(body_.axes.size(), 0);
  // In the order of the steps that need them first, so that a kernel reads as the program does.
  std::vector<int> sorted(body_.nodes.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::sort(sorted, {}, [&](int n) { return order_[rules::at(n)]; });
  keep_nodes(body_, sorted);
  return std::move(body_);
}

expected<kernel_body> build_body(const graph& g, const std::vector<int>& steps) {
  if (steps.empty()) return fail(errc::invalid_argument, "a kernel needs at least one step");
  CUDAL1_TRY(kernel_domain domain, domain_of(g, steps));
  CUDAL1_TRY(kernel_body body, body_builder(g, std::move(domain), steps).build());
  for (const auto size : body.extents()) {
    if (size == 0) return fail(errc::unsupported, "the kernel would have no elements");
  }
  for (const auto& o : body.accesses) {
    if (o.type.storage_bytes() > (int64_t{1} << 32))
      return fail(errc::unsupported, "{} is too large for 32-bit indices", o.value);
  }
  if (body.has_contraction() && body.windows.empty()) CUDAL1_CHECK(matrix_product_of(body));
  order_axes(body);
  collapse_axes(body);
  put_columns_in_b(body);
  return body;
}

operator_family family_of(const graph_step& s) {
  if (is_own_product(s)) return operator_family::product;
  if (adds_up_channels(s)) return operator_family::convolution;
  if (find_elementwise_builder(s) != nullptr) return operator_family::pointwise;
  if (const auto* row = find_row_builder(s)) return row->family;
  return operator_family::other;
}

}  // namespace cudal1
