// Indexing. Index values are data: ATen's CPU kernels check every one of them against the size of the
// dimension and throw (embedding, gather, index_select and the losses with class indices).
#include <algorithm>
#include <functional>

#include <fmt/ranges.h>

#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

expected<void> check_int64(const tensor_type& t, std::string_view name) {
  if (t.type == dtype::int64) return {};
  return refuse("{} is {}, but should be int64", name, t.text());
}

expected<void> check_int64_or_int32(const tensor_type& t, std::string_view name) {
  if (t.type == dtype::int64 || t.type == dtype::int32) return {};
  return refuse("{} is {}, but should be int64 or int32", name, t.text());
}

rule embedding() {
  return [](const arguments& a) -> outcome {
    const auto &weight = a.tensor("weight"), &indices = a.tensor("indices");
    CUDAL1_CHECK(check_rank(weight, 2, 2, "weight"));
    CUDAL1_CHECK(check_int64_or_int32(indices, "indices"));
    auto shape = indices.shape;
    shape.push_back(weight.shape[1]);
    return one(contiguous(weight.type, std::move(shape)));
  };
}

rule gather() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &index = a.tensor("index");
    CUDAL1_CHECK(check_int64(index, "index"));
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_CHECK(check_rank(index, t.dim(), t.dim(), "index"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    for (int64_t d = 0; d < t.dim(); ++d)
      if (d != dim && index.shape[at(d)] > t.shape[at(d)])
        return refuse("index is {}, larger than self, which is {}, in dimension {}", index.text(), t.text(), d);
    return one(contiguous(t.type, index.shape));
  };
}

rule index_select() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &index = a.tensor("index");
    CUDAL1_CHECK(check_int64_or_int32(index, "index"));
    CUDAL1_CHECK(check_rank(index, 0, 1, "index"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    if (t.dim() == 0 && index.numel() != 1) return refuse("index is {}, but self is a scalar", index.text());
    auto shape = t.shape;
    if (t.dim() > 0) shape[at(dim)] = index.numel();
    return one(contiguous(t.type, std::move(shape)));
  };
}

// The shape of what one index tensor selects, or several that broadcast; the others are null. The dimensions of the
// indices replace the indexed ones if these are adjacent; otherwise they come first.
expected<std::vector<int64_t>> indexed_shape(const tensor_type& t, const std::vector<const tensor_type*>& indices) {
  if (indices.size() > t.shape.size())
    return refuse("indices has {} items, but self, which is {}, has fewer dimensions", indices.size(), t.text());
  std::vector<int64_t> indexed, places;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    if (indices[d]->type == dtype::bool_ || indices[d]->type == dtype::uint8)
      return not_covered("indices[{}] is a mask: the number of its elements is known at run time only", d);
    CUDAL1_CHECK(check_int64_or_int32(*indices[d], fmt::format("indices[{}]", d)));
    if (!is_plain(*indices[d])) return not_covered("indices[{}] should be contiguous", d);
    CUDAL1_TRY(indexed, broadcast(indexed, indices[d]->shape));
    places.push_back(static_cast<int64_t>(d));
  }
  if (places.empty()) return refuse("indices should have a tensor");
  const bool neighbours = places.back() - places.front() + 1 == static_cast<int64_t>(places.size());
  auto shape = t.shape;
  for (auto d = places.rbegin(); d != places.rend(); ++d)
    shape.erase(shape.begin() + *d);
  shape.insert(shape.begin() + (neighbours ? places.front() : 0), indexed.begin(), indexed.end());
  return shape;
}

rule index() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    if (!is_plain(t)) return not_covered("self is {}, but must be contiguous here", t.text());
    CUDAL1_TRY(auto shape, indexed_shape(t, a.optional_tensors("indices")));
    return one(contiguous(t.type, std::move(shape)));
  };
}

rule index_put() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &values = a.tensor("values");
    CUDAL1_CHECK(check_same_type(t, values, "self", "values"));
    CUDAL1_TRY(const auto shape, indexed_shape(t, a.optional_tensors("indices")));
    CUDAL1_TRY(const auto both, broadcast(values.shape, shape));
    if (both != shape)
      return refuse("values is {}, but does not broadcast to the indexed {}", values.text(), shape_text(shape));
    return one({t.type, t.shape, preserved_strides(t)});
  };
}

// As many elements of `source` as `mask` has ones are read, so that there must be one for each.
rule masked_scatter() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &mask = a.tensor("mask"), &source = a.tensor("source");
    CUDAL1_CHECK(check_kind(mask, bools, "mask"));
    CUDAL1_CHECK(check_same_type(t, source, "self", "source"));
    CUDAL1_TRY(auto shape, broadcast(t.shape, mask.shape));
    auto result = contiguous(t.type, std::move(shape));
    if (source.numel() < result.numel())
      return not_covered("source is {}, but should have an element for each of the mask's {}", source.text(),
                         shape_text(result.shape));
    return one(std::move(result));
  };
}

rule take_along_dim() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &indices = a.tensor("indices");
    if (a.is_null("dim")) return not_covered("a null dim is not supported: flatten self first");
    CUDAL1_CHECK(check_int64(indices, "indices"));
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_CHECK(check_rank(indices, t.dim(), t.dim(), "indices"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(*a.optional_integer("dim"), t.dim()));
    auto self_shape = t.shape, shape = indices.shape;
    self_shape[at(dim)] = shape[at(dim)] = 1;
    CUDAL1_TRY(shape, broadcast(self_shape, shape));
    shape[at(dim)] = indices.shape[at(dim)];
    return one(contiguous(t.type, std::move(shape)));
  };
}

// The values come from the tensor `src`, or are the number `value`. `reductions`: what `reduce` may be.
rule scatter(const std::vector<std::string>& reductions = {}) {
  return [=](const arguments& a) -> outcome {
    if (!reductions.empty() && std::find(reductions.begin(), reductions.end(), a.text("reduce")) == reductions.end())
      return refuse("reduce is \"{}\", but should be one of {}", a.text("reduce"), fmt::join(reductions, ", "));
    const auto &t = a.tensor("self"), &index = a.tensor("index");
    CUDAL1_CHECK(check_int64(index, "index"));
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_CHECK(check_rank(index, t.dim(), t.dim(), "index"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    for (int64_t d = 0; d < t.dim(); ++d)
      if (d != dim && index.shape[at(d)] > t.shape[at(d)])
        return refuse("index is {}, larger than self, which is {}, in dimension {}", index.text(), t.text(), d);
    if (!a.has("src")) {
      CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), t.type, "value"));
      return one(contiguous(t.type, t.shape));
    }
    const auto& source = a.tensor("src");
    CUDAL1_CHECK(check_same_type(t, source, "self", "src"));
    CUDAL1_CHECK(check_rank(source, t.dim(), t.dim(), "src"));
    if (!std::equal(index.shape.begin(), index.shape.end(), source.shape.begin(), std::less_equal<>()))
      return refuse("index is {}, larger than src, which is {}", index.text(), source.text());
    return one(contiguous(t.type, t.shape));
  };
}

rule index_add() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &index = a.tensor("index"), &source = a.tensor("source");
    CUDAL1_CHECK(check_same_type(t, source, "self", "source"));
    CUDAL1_CHECK(check_scalar_fits(a.scalar("alpha"), t.type, "alpha"));
    CUDAL1_CHECK(check_int64_or_int32(index, "index"));
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_CHECK(check_rank(index, 1, 1, "index"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    auto wanted = t.shape;
    wanted[at(dim)] = index.shape[0];
    if (source.shape != wanted)
      return refuse("source is {}, but should have shape {}", source.text(), shape_text(wanted));
    return one(contiguous(t.type, t.shape));
  };
}

// self with a part of the given shape replaced.
outcome replaced(const arguments& a, const std::vector<int64_t>& part) {
  const auto &t = a.tensor("self"), &source = a.tensor("src");
  CUDAL1_CHECK(check_same_type(t, source, "self", "src"));
  if (!is_plain(t)) return not_covered("self is {}, but must be contiguous here", t.text());
  if (source.shape != part) return refuse("src is {}, but should have shape {}", source.text(), shape_text(part));
  return one(contiguous(t.type, t.shape));
}

rule slice_scatter() {
  return [part = slice()](const arguments& a) -> outcome {
    CUDAL1_TRY(const auto results, part(a));
    return replaced(a, results.front().type.shape);
  };
}

rule select_scatter() {
  return [part = select()](const arguments& a) -> outcome {
    CUDAL1_TRY(const auto results, part(a));
    return replaced(a, results.front().type.shape);
  };
}

rule one_hot() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_int64(t, "self"));
    if (!is_plain(t)) return not_covered("self is {}, but must be contiguous here", t.text());
    const int64_t classes = a.integer("num_classes");
    if (classes < 1)
      return refuse("num_classes is {}, but should be positive: the values of self are known at run time only",
                    classes);
    auto shape = t.shape;
    shape.push_back(classes);
    return one(contiguous(dtype::int64, std::move(shape)));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> index_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::index, {
      {"aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) -> Tensor", embedding(), {.reads = reading::part, .kernel = element_kernel{.form = kernel_form::looked_up}}},
      {"aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather(), {.reads = reading::part}},
      {"aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", index_select(), {.reads = reading::part}},
      {"aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index(), {.reads = reading::part}, {"aten::_unsafe_index.Tensor"}},
      {"aten::take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", take_along_dim(), {.reads = reading::part}},
      {"aten::scatter.src(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter()},
      {"aten::scatter.value(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", scatter()},
      {"aten::scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", scatter()},
      {"aten::scatter.reduce(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor", scatter({"add", "multiply"})},
      {"aten::scatter.value_reduce(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor", scatter({"add", "multiply"})},
      {"aten::scatter_reduce.two(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor", scatter({"sum", "prod", "mean", "amax", "amin"})},
      {"aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", index_put()},
      {"aten::masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", masked_scatter()},
      {"aten::index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", index_add()},
      {"aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor", slice_scatter()},
      {"aten::select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", select_scatter()},
      {"aten::one_hot(Tensor self, int num_classes=-1) -> Tensor", one_hot()},
  });
  // clang-format on
}

}  // namespace cudal1
