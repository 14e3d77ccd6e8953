#include "policy/codegen/kernel_domain.hpp"

#include <algorithm>
#include <iterator>
#include <optional>

#include "policy/codegen/body_builder.hpp"
#include "policy/codegen/feature_pools.hpp"
#include "policy/codegen/interleave.hpp"
#include "policy/codegen/product_operators.hpp"
#include "policy/codegen/window_operators.hpp"
#include "policy/graph/alignment.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

std::size_t at(int64_t index) {
  return static_cast<std::size_t>(index);
}

bool is_product_among(const graph& g, const std::vector<int>& steps, const std::string& value) {
  return std::ranges::any_of(
      steps, [&](int n) { return is_own_product(g.step_at(n)) && g.step_at(n).text->results[0] == value; });
}

// The domain of a kernel that joins equal tensors: one of them. Empty where no step joins.
expected<std::optional<row_domain>> joined_domain(const graph& g, const std::vector<int>& steps) {
  std::optional<row_domain> out;
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    const auto& kernel = s.record().traits.kernel;
    const bool interleaved = is_interleave(s);
    if (!interleaved && (!kernel || kernel->form != kernel_form::joined)) continue;
    const auto* list = std::get_if<std::vector<tensor_argument>>(s.argument("tensors"));
    row_domain own;
    own.interleaved = interleaved;
    own.whole = own.shape = s.result_types[0].shape;
    own.joined_dim = interleaved ? -1 : integer_argument(s, "dim").value_or(0);
    if (own.joined_dim < 0) own.joined_dim += std::ssize(own.shape);
    own.parts = std::ssize(*list);
    own.shape[at(own.joined_dim)] /= std::max<int64_t>(1, own.parts);
    if (interleaved && list->front().type.shape != own.shape) own.ungrouped = list->front().type.shape;
    if (own.parts < 2 || own.parts > most_parts || !own.covers_whole() || (out && own != *out))
      return fail(errc::unsupported, "{} does not join a few tensors of equal shape, as the rest of the kernel does",
                  s.op());
    out = std::move(own);
  }
  return out;
}

// The domain of a kernel whose product has equal slices that it reads: one of them. Empty where it has none.
std::optional<row_domain> sliced_domain(const graph& g, const std::vector<int>& steps) {
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    const auto place = place_of_slice(g, s, 0);
    if (!place) continue;
    const std::string from = g.resolve(*tensor_argument_name(s, "self"));
    if (!is_product_among(g, steps, from)) continue;
    row_domain out;
    out.whole = g.type_of(from).shape;
    out.shape = s.result_types[0].shape;
    const auto d = at(place->dim);
    if (out.shape.size() != out.whole.size() || out.shape[d] == 0) continue;
    out.joined_dim = place->dim;
    out.parts = out.whole[d] / out.shape[d];
    if (out.parts > 1 && out.parts <= most_parts && out.covers_whole()) return out;
  }
  return std::nullopt;
}

std::optional<feature_pool> pool_of_product_among(const graph& g, const std::vector<int>& steps, const graph_step& s) {
  auto pool = pool_of_features(g, s);
  if (pool && !is_product_among(g, steps, pool->product)) pool.reset();
  return pool;
}

// The domain of a kernel that takes the largest, or the average, of neighbouring columns of its product: each part has
// one of the columns that a window has.
std::optional<row_domain> pooled_domain(const graph& g, const std::vector<int>& steps) {
  for (const int number : steps) {
    const auto pool = pool_of_product_among(g, steps, g.step_at(number));
    if (!pool) continue;
    row_domain out;
    out.whole = out.shape = g.type_of(pool->product).shape;
    out.joined_dim = std::ssize(out.shape) - 1;
    out.parts = pool->size;
    out.shape.back() /= pool->size;
    out.interleaved = true;
    return out;
  }
  return std::nullopt;
}

// The rows that steps reduce, but for pools over a product's features.
expected<std::optional<row_domain>> reduced_domain(const graph& g, const std::vector<int>& steps) {
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

// The steps that make what windows of a step among them slide over.
std::set<int> steps_before_windows(const graph& g, const std::vector<int>& steps) {
  std::set<int> out;
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    if (find_window_operator(g.step_at(*s)) == nullptr && !out.contains(*s)) continue;
    for (const int maker : g.makers()[at(*s)])
      if (std::ranges::binary_search(steps, maker) && find_window_operator(g.step_at(maker)) == nullptr)
        out.insert(maker);
  }
  return out;
}

// The steps that make a factor of the products among them: the left one, or else the right one.
std::set<int> steps_before_products(const graph& g, const std::vector<int>& steps) {
  std::set<int> out;
  std::vector<int> makers;
  const auto is_among = [&](int n) { return std::ranges::binary_search(steps, n); };
  for (const int number : steps) {
    const graph_step& s = g.step_at(number);
    if (!is_own_product(s)) continue;
    for (const auto& factor : factors_of(g, s)) {
      const auto* maker = g.producer(factor);
      if (maker == nullptr || !is_among(maker->number)) continue;
      makers.push_back(maker->number);
      break;
    }
  }
  while (!makers.empty()) {
    const int n = makers.back();
    makers.pop_back();
    if (!out.insert(n).second) continue;
    std::ranges::copy_if(g.makers()[at(n)], std::back_inserter(makers), is_among);
  }
  return out;
}

}  // namespace

expected<row_domain> domain_of(const graph& g, const std::vector<int>& steps) {
  CUDAL1_TRY(const auto rows, reduced_domain(g, steps));
  CUDAL1_TRY(const auto joined, joined_domain(g, steps));
  if (joined && rows) return fail(errc::unsupported, "a kernel that joins tensors cannot reduce");
  if (joined) return *joined;
  auto parts = pooled_domain(g, steps);
  if (!parts) parts = sliced_domain(g, steps);
  if (!rows && parts) return *parts;
  if (rows && parts && rows->windows.empty() && rows->split_dim < 0 && rows->shape == parts->shape) {
    parts->reduced = rows->reduced;
    return *parts;
  }
  if (rows) return *rows;
  // Pointwise steps and products only: all results have one shape.
  row_domain out;
  out.shape = g.step_at(steps.back()).result_types[0].shape;
  return out;
}

std::set<int> steps_in_front(const graph& g, const std::vector<int>& steps, const row_domain& domain) {
  return domain.windows.empty() ? steps_before_products(g, steps) : steps_before_windows(g, steps);
}

}  // namespace cudal1
