// aten::einsum. Its result is a permuted view of a batched product, so the layout is found by doing to types what ATen
// does to tensors.
#include <algorithm>
#include <map>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/einsum.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

// An operand's dimensions in the order of `labels`: repeated labels as a diagonal, missing ones of size 1.
expected<tensor_type> aligned(const tensor_type& t, const std::vector<int>& named, const std::vector<int>& labels) {
  std::map<int, std::pair<int64_t, int64_t>> found;  // size, stride
  for (std::size_t d = 0; d < named.size(); ++d) {
    auto [place, fresh] = found.emplace(named[d], std::pair{t.shape[d], t.strides[d]});
    if (fresh) continue;
    if (place->second.first != t.shape[d])
      return refuse("{}: dimensions with the same label should have the same size", t.text());
    place->second.second = saturating_add(place->second.second, t.strides[d]);
  }
  // As op.unsqueeze(-1): missing dimensions get size 1 and stride 1.
  tensor_type result{t.type, {}, {}};
  for (const int label : labels) {
    const auto place = found.find(label);
    result.shape.push_back(place == found.end() ? 1 : place->second.first);
    result.strides.push_back(place == found.end() ? 1 : place->second.second);
  }
  return result;
}

tensor_type summed_over(const tensor_type& t, const std::vector<std::size_t>& dims) {
  if (dims.empty()) return t;
  auto shape = t.shape;
  for (const auto d : dims)
    shape[d] = 1;
  return contiguous(t.type, std::move(shape));
}

// ATen's sumproduct_pair: bmm of "both, left, summed" and "both, summed, right", its result permuted back.
expected<tensor_type> multiplied(const tensor_type& left, const tensor_type& right,
                                 const std::vector<std::size_t>& summed) {
  CUDAL1_TRY(auto shape, broadcast(left.shape, right.shape));
  if (summed.empty()) {
    auto strides = iterator_strides(shape, {left, right});
    return tensor_type{left.type, std::move(shape), std::move(strides)};
  }
  std::vector<std::size_t> both, left_only, right_only;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (std::find(summed.begin(), summed.end(), d) != summed.end()) continue;
    const bool in_left = left.shape[d] != 1, in_right = right.shape[d] != 1;
    (in_left && in_right ? both : in_left ? left_only : right_only).push_back(d);
  }
  // ATen swaps the operands where all dimensions of the right one come first.
  if (!left_only.empty() && !right_only.empty() && right_only.back() < left_only.front())
    std::swap(left_only, right_only);
  std::vector<std::size_t> order = both;
  order.insert(order.end(), left_only.begin(), left_only.end());
  order.insert(order.end(), summed.begin(), summed.end());
  order.insert(order.end(), right_only.begin(), right_only.end());
  for (const auto d : summed)
    shape[d] = 1;
  std::vector<int64_t> sizes;
  for (const auto d : order)
    sizes.push_back(shape[d]);
  const auto dense = contiguous_strides(sizes);
  std::vector<int64_t> strides(shape.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    strides[order[i]] = dense[i];
  return tensor_type{left.type, std::move(shape), std::move(strides)};
}

struct contraction {
  std::vector<tensor_type> operands;  // aligned
  std::vector<int> uses;              // by dimension: number of operands in which its size is not 1
  std::size_t outputs = 0;            // dimensions before the summed ones

  // Contracts two operands: sums the dimensions that no other operand has, then multiplies.
  expected<tensor_type> pair(tensor_type left, tensor_type right) {
    std::vector<std::size_t> together, in_left, in_right;
    for (std::size_t d = outputs; d < uses.size(); ++d) {
      const bool left_has = left.shape[d] != 1, right_has = right.shape[d] != 1;
      if (left_has && right_has) {
        if (--uses[d] != 1) continue;
        together.push_back(d);
      } else if (uses[d] == 1 && (left_has || right_has)) {
        (left_has ? in_left : in_right).push_back(d);
      } else {
        continue;
      }
      uses[d] = 0;
    }
    return multiplied(summed_over(left, in_left), summed_over(right, in_right), together);
  }
};

expected<contraction> read_contraction(const arguments& a) {
  const auto tensors = a.tensors("tensors");
  std::vector<int64_t> ranks;
  for (const auto& t : tensors) {
    ranks.push_back(t.dim());
    CUDAL1_CHECK(check_kind(t, floats, "an operand"));
    CUDAL1_CHECK(check_same_type(tensors.front(), t, "tensors[0]", "another operand"));
  }
  CUDAL1_TRY(const auto equation, parse_einsum(a.text("equation"), ranks));
  std::vector<int> labels = equation.output;
  labels.insert(labels.end(), equation.summed.begin(), equation.summed.end());
  contraction c;
  c.outputs = equation.output.size();
  c.uses.assign(labels.size(), 0);
  std::vector<int64_t> shape(labels.size(), 1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    CUDAL1_TRY(auto t, aligned(tensors[i], equation.operands[i], labels));
    CUDAL1_TRY(shape, broadcast(shape, t.shape));
    for (std::size_t d = 0; d < labels.size(); ++d)
      if (t.shape[d] != 1) ++c.uses[d];
    c.operands.push_back(std::move(t));
  }
  return c;
}

rule einsum() {
  return [](const arguments& a) -> outcome {
    if (!a.is_null("path")) return not_covered("path is not supported: leave it out, products go from left to right");
    CUDAL1_TRY(auto c, read_contraction(a));
    const bool single = c.operands.size() == 1, sums = c.uses.size() > c.outputs;
    if (single && !sums) return not_covered("an einsum that multiplies and sums nothing is not supported: use permute");
    auto result = c.operands.front();
    for (std::size_t i = 1; i < c.operands.size(); ++i) {
      CUDAL1_TRY(result, c.pair(std::move(result), c.operands[i]));
    }
    if (!sums) return one(std::move(result));
    result.shape.resize(c.outputs);
    if (single) return one(contiguous(result.type, result.shape));
    auto before = std::move(result);
    before.shape.resize(c.uses.size(), 1);
    auto strides =
        view_strides(before, {before.shape.begin(), before.shape.begin() + static_cast<std::ptrdiff_t>(c.outputs)});
    if (!strides) return not_covered("the layout of this einsum is not supported");
    before.shape.resize(c.outputs);
    return one({before.type, before.shape, std::move(*strides)});
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> einsum_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::contraction, {
      {"aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor", einsum(), {.flops = einsum_flops}},
  });
  // clang-format on
}

}  // namespace cudal1
