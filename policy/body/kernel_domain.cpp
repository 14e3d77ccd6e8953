#include "policy/body/kernel_domain.hpp"

#include <algorithm>

#include "policy/body/body_builder.hpp"
#include "policy/body/operators/feature_pools.hpp"
#include "policy/body/operators/interleave.hpp"
#include "policy/body/operators/product_operators.hpp"
#include "policy/graph/alignment.hpp"
#include "sandbox/program/operators/record.hpp"
#include "sandbox/program/operators/strides.hpp"

namespace cudal1 {

namespace {

bool is_product_among(const graph& g, const std::vector<int>& steps, const std::string& value) {
  return std::ranges::any_of(
      steps, [&](int n) { return is_own_product(g.step_at(n)) && g.step_at(n).text->results[0] == value; });
}

// The parts of a kernel that joins equal tensors. Empty where no step joins.
expected<std::optional<joined_parts>> joined_tensors(const graph& g, const std::vector<int>& steps) {
  std::optional<joined_parts> out;
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    const auto& kernel = s.record().traits.kernel;
    const bool interleaved = is_interleave(s);
    if (!interleaved && (!kernel || kernel->form != kernel_form::joined)) continue;
    const auto* list = std::get_if<std::vector<tensor_argument>>(s.argument("tensors"));
    joined_parts own;
    own.interleaved = interleaved;
    own.whole = own.part = s.result_types[0].shape;
    own.dim = interleaved ? -1 : integer_argument(s, "dim").value_or(0);
    if (own.dim < 0) own.dim += std::ssize(own.part);
    own.count = std::ssize(*list);
    own.part[rules::at(own.dim)] /= std::max<int64_t>(1, own.count);
    if (interleaved && list->front().type.shape != own.part) own.ungrouped = list->front().type.shape;
    if (own.count < 2 || own.count > most_parts || !own.covers_whole() || (out && own != *out))
      return fail(errc::unsupported, "{} does not join a few tensors of equal shape, as the rest of the kernel does",
                  s.op());
    out = std::move(own);
  }
  return out;
}

// The parts of a kernel whose product has equal slices that it reads. Empty where it has none.
std::optional<joined_parts> sliced_product(const graph& g, const std::vector<int>& steps) {
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    const auto place = place_of_slice(g, s, 0);
    if (!place) continue;
    const std::string from = g.resolve(*tensor_argument_name(s, "self"));
    if (!is_product_among(g, steps, from)) continue;
    joined_parts out;
    out.whole = g.type_of(from).shape;
    out.part = s.result_types[0].shape;
    const auto d = rules::at(place->dim);
    if (out.part.size() != out.whole.size() || out.part[d] == 0) continue;
    out.dim = place->dim;
    out.count = out.whole[d] / out.part[d];
    if (out.count > 1 && out.count <= most_parts && out.covers_whole()) return out;
  }
  return std::nullopt;
}

std::optional<feature_pool> pool_of_product_among(const graph& g, const std::vector<int>& steps, const graph_step& s) {
  auto pool = pool_of_features(g, s);
  if (pool && !is_product_among(g, steps, pool->product)) pool.reset();
  return pool;
}

// The parts of a kernel that takes the largest, or the average, of neighbouring columns of its product: each has one of
// the columns that a window has.
std::optional<joined_parts> pooled_product(const graph& g, const std::vector<int>& steps) {
  for (const int number : steps) {
    const auto pool = pool_of_product_among(g, steps, g.step_at(number));
    if (!pool) continue;
    joined_parts out;
    out.whole = out.part = g.type_of(pool->product).shape;
    out.dim = std::ssize(out.part) - 1;
    out.count = pool->size;
    out.part.back() /= pool->size;
    out.interleaved = true;
    return out;
  }
  return std::nullopt;
}

// The rows that steps reduce, but for pools over a product's features.
expected<std::optional<row_domain>> reduced_rows(const graph& g, const std::vector<int>& steps) {
  std::optional<row_domain> out;
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    const auto* row = find_row_builder(s);
    if (row == nullptr || pool_of_product_among(g, steps, s)) continue;
    CUDAL1_TRY(row_domain own, row->domain(g, s));
    if (out && *out != own) return fail(errc::unsupported, "steps {} reduce different dimensions", print_steps(steps));
    out = std::move(own);
  }
  return out;
}

}  // namespace

expected<kernel_domain> domain_of(const graph& g, const std::vector<int>& steps) {
  CUDAL1_TRY(const auto rows, reduced_rows(g, steps));
  CUDAL1_TRY(auto parts, joined_tensors(g, steps));
  if (parts && rows) return fail(errc::unsupported, "a kernel that joins tensors cannot reduce");
  if (!parts) parts = pooled_product(g, steps);
  if (!parts) parts = sliced_product(g, steps);
  kernel_domain out;
  if (rows) {
    out.rows = *rows;
    if (parts && rows->windows.empty() && rows->split_dim < 0 && rows->shape == parts->part) out.parts = parts;
    return out;
  }
  // Pointwise steps and products only: all results have one shape.
  out.rows.shape = parts ? parts->part : g.step_at(steps.back()).result_types[0].shape;
  out.parts = std::move(parts);
  return out;
}

}  // namespace cudal1
