#include "sandbox/program/operators/strides.hpp"

#include <algorithm>
#include <array>
#include <numeric>

namespace cudal1::rules {

namespace {

// ATen's insertion sort of dimensions, fastest first, with comparisons that may be ambiguous (0).
template <class Compare>
std::vector<std::size_t> ordered_dimensions(std::size_t rank, Compare compare) {
  std::vector<std::size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  for (std::size_t i = 1; i < rank; ++i) {
    std::size_t moving = i;
    for (std::size_t j = i; j-- > 0;) {
      const int relation = compare(order[j], order[moving]);
      if (relation > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      } else if (relation < 0) {
        break;
      }
    }
  }
  return order;
}

std::vector<int64_t> strides_in_order(const std::vector<int64_t>& shape, const std::vector<std::size_t>& order) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = 1;
  for (const auto d : order) {
    strides[d] = step;
    step *= std::max<int64_t>(shape[d], 1);
  }
  return strides;
}

// c10's is_channels_last_strides_2d and _3d: strides that look like the format, ambiguous ones excluded.
template <std::size_t N>
bool looks_channels_last(const tensor_type& t, const std::array<std::size_t, N>& fastest_first) {
  if (t.strides[1] == 0) return false;
  int64_t least = 0;
  for (const auto d : fastest_first) {
    if (t.shape[d] == 0 || t.strides[d] < least) return false;
    if (d == 0 && least == t.strides[1]) return false;
    least = t.strides[d];
    if (t.shape[d] > 1) least *= t.shape[d];
  }
  return true;
}

// The strides of an operand, seen through the broadcast to `shape`.
std::vector<int64_t> broadcast_strides(const tensor_type& t, const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 0);
  const auto missing = shape.size() - t.shape.size();
  for (std::size_t d = 0; d < t.shape.size(); ++d)
    if (t.shape[d] != 1 || shape[missing + d] == 1) strides[missing + d] = t.strides[d];
  return strides;
}

}  // namespace

std::vector<int64_t> channels_last_strides(const std::vector<int64_t>& shape) {
  if (shape.size() == 5) return strides_in_order(shape, {1, 4, 3, 2, 0});
  return strides_in_order(shape, {1, 3, 2, 0});
}

bool is_plain(const tensor_type& t) {
  return t.strides == contiguous_strides(t.shape);
}

bool is_channels_last(const tensor_type& t) {
  if (t.dim() != 4) return false;
  int64_t wanted = 1;
  for (const std::size_t d : {1, 3, 2, 0}) {
    if (t.shape[d] == 1) continue;
    if (t.strides[d] != wanted) return false;
    wanted *= t.shape[d];
  }
  return true;
}

bool is_non_overlapping_and_dense(const tensor_type& t) {
  if (t.is_contiguous() || is_channels_last(t)) return true;
  std::vector<std::size_t> order(t.shape.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (t.shape[a] < 2) return false;
    return t.shape[b] < 2 || t.strides[a] < t.strides[b];
  });
  int64_t wanted = 1;
  for (const auto d : order) {
    if (t.shape[d] < 2) return true;
    if (t.strides[d] != wanted) return false;
    wanted *= t.shape[d];
  }
  return true;
}

format suggested_format(const tensor_type& t) {
  const bool last = (t.dim() == 4 && looks_channels_last<4>(t, {1, 3, 2, 0})) ||
                    (t.dim() == 5 && looks_channels_last<5>(t, {1, 4, 3, 2, 0}));
  return last ? format::channels_last : format::contiguous;
}

tensor_type laid_out(dtype type, std::vector<int64_t> shape, format how) {
  if (how == format::contiguous) return contiguous(type, std::move(shape));
  auto strides = channels_last_strides(shape);
  return {type, std::move(shape), std::move(strides)};
}

std::vector<int64_t> preserved_strides(const tensor_type& t) {
  if (is_non_overlapping_and_dense(t)) return t.strides;
  return strides_in_order(t.shape, ordered_dimensions(t.shape.size(), [&](std::size_t a, std::size_t b) {
                            const auto sa = t.strides[a], sb = t.strides[b];
                            if (sa == 0 || sb == 0) return 0;
                            if (sa != sb) return sa < sb ? -1 : 1;
                            return t.shape[a] > t.shape[b] ? 1 : 0;
                          }));
}

std::vector<int64_t> iterator_strides(const std::vector<int64_t>& shape, const std::vector<tensor_type>& operands) {
  const auto every = [&](auto&& holds) { return std::all_of(operands.begin(), operands.end(), holds); };
  if (every([&](const tensor_type& t) { return t.shape == shape; })) {  // the iterator's fast paths
    if (every([](const tensor_type& t) { return t.is_contiguous(); })) return contiguous_strides(shape);
    if (every(is_channels_last)) return channels_last_strides(shape);
    if (every([&](const tensor_type& t) {
          return is_non_overlapping_and_dense(t) && t.strides == operands.front().strides;
        }))
      return operands.front().strides;
  }
  std::vector<std::vector<int64_t>> seen;
  for (const auto& t : operands)
    seen.push_back(broadcast_strides(t, shape));
  const auto order = ordered_dimensions(shape.size(), [&](std::size_t a, std::size_t b) {
    for (const auto& strides : seen) {
      if (strides[a] == 0 || strides[b] == 0) continue;
      if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  });
  return strides_in_order(shape, order);
}

std::optional<std::vector<int64_t>> view_strides(const tensor_type& t, const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  if (t.shape.empty()) return strides;
  int64_t next = static_cast<int64_t>(shape.size()) - 1;
  int64_t chunk_stride = t.strides.back(), old_count = 1, new_count = 1;
  for (int64_t d = t.dim() - 1; d >= 0; --d) {
    old_count *= t.shape[at(d)];
    if (d != 0 && (t.shape[at(d - 1)] == 1 || t.strides[at(d - 1)] == old_count * chunk_stride)) continue;
    while (next >= 0 && (new_count < old_count || shape[at(next)] == 1)) {
      strides[at(next)] = new_count * chunk_stride;
      new_count *= shape[at(next)];
      --next;
    }
    if (new_count != old_count) return std::nullopt;
    if (d > 0) {
      chunk_stride = t.strides[at(d - 1)];
      old_count = new_count = 1;
    }
  }
  if (next != -1) return std::nullopt;
  return strides;
}

tensor_type converted(const tensor_type& t, dtype type) {
  if (t.type == type) return t;
  return {type, t.shape, preserved_strides(t)};
}

}  // namespace cudal1::rules
