// Sorting, and the largest elements.
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

rule topk() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    const int64_t k = a.integer("k");
    if (t.dim() == 0 && k == 1)
      return std::vector<operator_result>{{contiguous(t.type, {}), {}}, {contiguous(dtype::int64, {}), {}}};
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    auto shape = t.shape;
    if (k < 1 || k > shape[at(dim)]) return refuse("k is {}, but should lie in 1 to {}", k, shape[at(dim)]);
    shape[at(dim)] = k;
    return std::vector<operator_result>{{contiguous(t.type, shape), {}}, {contiguous(dtype::int64, shape), {}}};
  };
}

rule sort() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(wrap_dimension(a.integer("dim"), t.dim()));
    const auto strides = preserved_strides(t);
    return std::vector<operator_result>{{{t.type, t.shape, strides}, {}}, {{dtype::int64, t.shape, strides}, {}}};
  };
}

rule argsort() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(wrap_dimension(a.integer("dim"), t.dim()));
    return one({dtype::int64, t.shape, preserved_strides(t)});
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> sort_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::sort, {
      {"aten::topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", topk()},
      {"aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort()},
      {"aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)", sort()},
      {"aten::argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", argsort()},
      {"aten::argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor", argsort()},
  });
  // clang-format on
}

}  // namespace cudal1
