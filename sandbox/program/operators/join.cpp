// Joining tensors.
#include <algorithm>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

outcome joined(const std::vector<tensor_type>& tensors, int64_t along) {
  if (tensors.empty()) return refuse("tensors should not be empty");
  const auto& first = tensors.front();
  CUDAL1_CHECK(check_rank(first, 1, 64, "tensors[0]"));
  CUDAL1_TRY(const int64_t dim, wrap_dimension(along, first.dim()));
  promotion types;
  auto shape = first.shape;
  shape[at(dim)] = 0;
  bool plain = false;
  for (const auto& t : tensors) {
    types.add(t);
    plain |= suggested_format(t) == format::contiguous;
    auto wanted = shape;
    if (t.dim() == first.dim()) {
      wanted[at(dim)] = t.shape[at(dim)];
      shape[at(dim)] = saturating_add(shape[at(dim)], t.shape[at(dim)]);
    }
    if (t.shape != wanted) return refuse("{} and {} differ in more than dimension {}", first.text(), t.text(), dim);
  }
  return one(laid_out(types.result(), std::move(shape), plain ? format::contiguous : format::channels_last));
}

rule hstack() {
  return [](const arguments& a) -> outcome {
    const auto tensors = a.tensors("tensors");
    return joined(tensors, !tensors.empty() && tensors.front().dim() > 1 ? 1 : 0);
  };
}

rule vstack() {
  return [](const arguments& a) -> outcome {
    auto tensors = a.tensors("tensors");
    for (auto& t : tensors)
      if (t.dim() == 1) t = contiguous(t.type, {1, t.shape[0]});  // the layout of a row does not matter
    return joined(tensors, 0);
  };
}

rule cat() {
  return [](const arguments& a) { return joined(a.tensors("tensors"), a.integer("dim")); };
}

rule stack() {
  return [](const arguments& a) -> outcome {
    auto tensors = a.tensors("tensors");
    if (tensors.empty()) return refuse("tensors should not be empty");
    const auto first = tensors.front();
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), first.dim() + 1));
    promotion types;
    for (const auto& t : tensors) {
      types.add(t);
      if (t.shape != first.shape) return refuse("{} and {} should have the same shape", first.text(), t.text());
      if (suggested_format(t) != format::contiguous)
        return not_covered("{} should be contiguous to be stacked: it is channels-last", t.text());
    }
    auto shape = first.shape;
    shape.insert(shape.begin() + dim, static_cast<int64_t>(tensors.size()));
    return one(contiguous(types.result(), std::move(shape)));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> join_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::join, {
      {"aten::cat(Tensor[] tensors, int dim=0) -> Tensor", cat(), {.changes = {effect::onto}, .kernel = element_kernel{.form = kernel_form::joined}}, {"aten::concat"}},
      {"aten::stack(Tensor[] tensors, int dim=0) -> Tensor", stack(), {.changes = {effect::onto}}},
      {"aten::hstack(Tensor[] tensors) -> Tensor", hstack()},
      {"aten::vstack(Tensor[] tensors) -> Tensor", vstack()},
  });
  // clang-format on
}

}  // namespace cudal1
