#include "policy/body/operators/feature_pools.hpp"

#include <utility>
#include <vector>

#include "policy/body/matrix_product.hpp"
#include "policy/body/operators/product_operators.hpp"
#include "policy/body/operators/window_operators.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

// Sizes and strides of the dimensions that have more than one element.
std::vector<std::pair<int64_t, int64_t>> real_dimensions(const tensor_type& type) {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (std::size_t d = 0; d < type.shape.size(); ++d)
    if (type.shape[d] != 1) out.emplace_back(type.shape[d], type.strides[d]);
  return out;
}

}  // namespace

bool is_unit_view(const graph& g, const graph_step& s) {
  if (s.is_replaced() || s.use->record == nullptr || s.result_types.size() != 1 ||
      s.record().kind != operator_kind::view || s.record().traits.moves_start_address)
    return false;
  const auto self = tensor_argument_name(s, "self");
  if (!self) return false;
  const tensor_type& from = g.type_of(g.resolve(*self));
  return from.type == s.result_types[0].type && real_dimensions(from) == real_dimensions(s.result_types[0]);
}

std::optional<feature_pool> pool_of_features(const graph& g, const graph_step& s) {
  if (s.is_replaced() || s.use->record == nullptr || s.record().traits.pooled_dimensions != 1 ||
      integer_argument(s, "divisor_override"))
    return std::nullopt;
  const auto windows = windows_of(s);
  if (windows.size() != 1) return std::nullopt;
  const work_parts::window& w = windows.front();
  if (w.kernel < 2 || w.kernel > std::min<int64_t>(most_parts, most_products) || w.stride != w.kernel ||
      w.padding != 0 || w.dilation != 1 || w.positions * w.kernel > w.size)
    return std::nullopt;
  std::string value = g.resolve(*tensor_argument_name(s, "self"));
  const auto pooled = real_dimensions(g.type_of(value));
  const graph_step* made = g.producer(value);
  while (made != nullptr && is_unit_view(g, *made)) {
    value = std::string(g.resolve(*tensor_argument_name(*made, "self")));
    made = g.producer(value);
  }
  if (made == nullptr || !is_own_product(*made) || made->text->results[0] != value) return std::nullopt;
  const tensor_type& type = g.type_of(value);
  if (type.shape.back() != w.size || real_dimensions(type) != pooled) return std::nullopt;
  return feature_pool{value, w.kernel};
}

}  // namespace cudal1
