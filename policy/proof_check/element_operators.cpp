#include "policy/proof_check/element_operators.hpp"

#include <unordered_map>

namespace cudal1 {

element_rule find_element_rule(std::string_view op) {
  static const auto rules = [] {
    std::unordered_map<std::string_view, element_rule> out;
    for (const auto& family : {elementwise_rules(), moving_rules(), row_rules(), product_rules()})
      out.insert(family.begin(), family.end());
    return out;
  }();
  const auto found = rules.find(op);
  return found == rules.end() ? nullptr : found->second;
}

std::size_t dimension_of(int64_t dim, std::size_t dims) {
  return static_cast<std::size_t>(dim < 0 ? dim + static_cast<int64_t>(dims) : dim);
}

place place_at(int64_t index) {
  place out;
  out.dims = 1;
  out[0] = index;
  return out;
}

place broadcast_place(const place& p, const std::vector<int64_t>& shape) {
  place out;
  out.dims = shape.size();
  const std::size_t missing = p.dims - out.dims;
  for (std::size_t d = 0; d < out.dims; ++d)
    out[d] = shape[d] == 1 ? 0 : p[d + missing];
  return out;
}

}  // namespace cudal1
