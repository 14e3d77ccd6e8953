#include "policy/body/memory_order.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace cudal1 {

std::vector<int64_t> memory_order(const tensor_type& t) {
  std::vector<int64_t> order(t.shape.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  // The stride of a dimension of one element says nothing.
  const auto key = [&](int64_t d) {
    const auto i = static_cast<std::size_t>(d);
    return std::pair(-t.strides[i], t.shape[i] == 1);
  };
  std::ranges::stable_sort(order, {}, key);
  return order;
}

tensor_type permuted(const tensor_type& t, const std::vector<int64_t>& order) {
  tensor_type out{t.type, {}, {}};
  for (const auto d : order) {
    out.shape.push_back(t.shape[static_cast<std::size_t>(d)]);
    out.strides.push_back(t.strides[static_cast<std::size_t>(d)]);
  }
  return out;
}

bool is_dense(const tensor_type& t) {
  return permuted(t, memory_order(t)).is_contiguous();
}

aten_step ordered_back(const std::string& memory, const std::vector<int64_t>& order, std::string name) {
  json::array back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = json(static_cast<int64_t>(i));
  aten_step view;
  view.op = "aten::permute";
  view.args = {{"self", json(memory)}, {"dims", json(std::move(back))}};
  view.results = {std::move(name)};
  return view;
}

}  // namespace cudal1
