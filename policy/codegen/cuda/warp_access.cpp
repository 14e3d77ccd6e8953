#include "policy/codegen/cuda/warp_access.hpp"

#include <algorithm>

#include "policy/tile/statement_work.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_instruction = 16;  // bytes that a lane accesses at once, at most

// Adds the index of element `at` of the dimensions [first, last), counted in the order of the axes.
void add_index(const kernel_body& body, std::size_t first, std::size_t last, int64_t at, std::vector<int64_t>& index) {
  for (std::size_t d = last; d-- > first;) {
    index[d] = at % body.extent(d);
    at /= body.extent(d);
  }
}

}  // namespace

warp_access& warp_access::operator+=(const warp_access& other) {
  instructions += other.instructions;
  sectors += other.sectors;
  return *this;
}

warp_access access_of_warp(const body_access& o, int64_t width, const lane_place& place) {
  const vector_access how = access_of(o, width);
  const int64_t size = size_of(o.type.type);
  const int64_t bytes = how == vector_access::vector ? std::min(width * size, k_instruction) : size;
  const int64_t count = how == vector_access::vector ? width * size / bytes : how == vector_access::scalar ? width : 1;
  const int64_t step = how == vector_access::vector ? bytes : o.strides.empty() ? 0 : o.strides.back() * size;
  std::vector<int64_t> first;
  for (int64_t lane = 0; lane < lanes_of_a_warp; ++lane) {
    const auto index = place(lane);
    int64_t at = o.offset;
    for (std::size_t d = 0; d < o.strides.size(); ++d) {
      const divided_axis* divided = o.division_of(d);
      at += divided == nullptr ? index[d] * o.strides[d]
                               : index[d] / divided->divisor * divided->outer_stride +
                                     index[d] % divided->divisor * divided->inner_stride;
    }
    first.push_back(at * size);
  }
  warp_access out{static_cast<double>(count), 0};
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> addresses = first;
    for (auto& each : addresses)
      each += i * step;
    out.sectors += tile::sectors_at(addresses, bytes);
  }
  return out;
}

lane_place place_in_rows(const kernel_body& body, const row_layout& l) {
  return [&body, l](int64_t lane) {
    const int64_t row = l.lanes_over_rows ? lane % l.rows : lane / l.row_threads;
    const int64_t vector = l.lanes_over_rows ? lane / l.rows : lane % l.row_threads;
    std::vector<int64_t> index(body.axes.size());
    const auto rows = static_cast<std::size_t>(body.row_dims());
    add_index(body, 0, rows, std::min(row, body.rows() - 1), index);
    add_index(body, rows, index.size(), std::min(vector, l.vectors - 1) * l.width, index);
    return index;
  };
}

double operations_of(const kernel_body& body, const std::vector<int>& nodes) {
  double out = 0;
  for (const int n : nodes) {
    const body_node& each = body.nodes[static_cast<std::size_t>(n)];
    if (each.kind == node_kind::pointwise) out += each.operations;
  }
  return out;
}

}  // namespace cudal1
