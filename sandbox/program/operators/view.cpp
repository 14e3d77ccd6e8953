// Views: their strides as ATen computes them.
#include <algorithm>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

// The shape with its -1 replaced by the size that gives `count` elements.
expected<std::vector<int64_t>> infer_shape(std::vector<int64_t> shape, int64_t count) {
  int64_t product = 1;
  std::optional<std::size_t> open;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == -1) {
      if (open) return refuse("shape {} has more than one -1", shape_text(shape));
      open = d;
    } else if (shape[d] < 1) {
      return refuse("shape {} should have positive sizes, or one -1", shape_text(shape));
    } else {
      product = saturating_multiply(product, shape[d]);
    }
  }
  if (open ? count % product != 0 : count != product)
    return refuse("shape {} does not hold the {} elements", shape_text(shape), count);
  if (open) shape[*open] = count / product;
  return shape;
}

// What becomes of a tensor whose strides have no such view.
enum class without_view { refuse, copy };

outcome reshaped(const tensor_type& t, std::vector<int64_t> wanted, without_view otherwise) {
  CUDAL1_TRY(auto shape, infer_shape(std::move(wanted), t.numel()));
  if (auto strides = view_strides(t, shape)) return view_of_first({t.type, std::move(shape), std::move(*strides)});
  if (otherwise == without_view::refuse)
    return refuse("{} cannot be seen as {} without a copy: use reshape", t.text(), shape_text(shape));
  return one(contiguous(t.type, std::move(shape)));
}

outcome permuted(const tensor_type& t, const std::vector<int64_t>& dims) {
  tensor_type result{t.type, {}, {}};
  for (const auto d : dims) {
    result.shape.push_back(t.shape[at(d)]);
    result.strides.push_back(t.strides[at(d)]);
  }
  return view_of_first(std::move(result));
}

std::vector<int64_t> counted(int64_t n) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < n; ++d)
    dims.push_back(d);
  return dims;
}

outcome expanded(const tensor_type& t, std::vector<int64_t> shape) {
  const auto rank = static_cast<int64_t>(shape.size()), missing = rank - t.dim();
  if (missing < 0) return refuse("size {} has fewer dimensions than self, which is {}", shape_text(shape), t.text());
  std::vector<int64_t> strides(shape.size(), 0);
  for (int64_t d = rank - 1; d >= 0; --d) {
    const bool present = d >= missing;
    int64_t size = present ? t.shape[at(d - missing)] : 1;
    if (present) {
      strides[at(d)] = t.strides[at(d - missing)];
    } else if (t.dim() > 0) {
      strides[at(d)] = saturating_multiply(shape[at(d + 1)], strides[at(d + 1)]);
    }
    if (shape[at(d)] == -1 && present) shape[at(d)] = size;
    if (shape[at(d)] < 1) return refuse("size[{}] is {}: a new dimension needs a positive size", d, shape[at(d)]);
    if (shape[at(d)] == size) continue;
    if (size != 1) return refuse("size {} does not fit self, which is {}", shape_text(shape), t.text());
    strides[at(d)] = 0;
  }
  return view_of_first({t.type, std::move(shape), std::move(strides)});
}

// A range of one dimension, of at least one element.
outcome ranged(tensor_type t, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (start >= end) return refuse("the range {} to {} of dimension {} is empty", start, end, dim);
  t.shape[at(dim)] = (end - start - 1) / step + 1;
  t.strides[at(dim)] = saturating_multiply(t.strides[at(dim)], step);
  return view_of_first(std::move(t));
}

// Counted from the end where negative, then kept inside 0..size, as slices do.
int64_t clamped(int64_t index, int64_t size) {
  return std::clamp<int64_t>(index < 0 ? saturating_add(index, size) : index, 0, size);
}

rule view() {
  return [](const arguments& a) { return reshaped(a.tensor("self"), a.integers("size"), without_view::refuse); };
}

rule reshape() {
  return [](const arguments& a) { return reshaped(a.tensor("self"), a.integers("shape"), without_view::copy); };
}

rule view_as() {
  return [](const arguments& a) { return reshaped(a.tensor("self"), a.tensor("other").shape, without_view::refuse); };
}

rule reshape_as() {
  return [](const arguments& a) { return reshaped(a.tensor("self"), a.tensor("other").shape, without_view::copy); };
}

rule unsafe_view() {  // a view, though its schema does not declare one
  return [](const arguments& a) { return reshaped(a.tensor("self"), a.integers("size"), without_view::refuse); };
}

rule unfold() {
  return [](const arguments& a) -> outcome {
    auto t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 63, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dimension"), t.dim(), "dimension"));
    const int64_t size = a.integer("size"), step = a.integer("step"), stride = t.strides[at(dim)];
    if (size < 1 || size > t.shape[at(dim)])
      return refuse("size is {}, but should lie in 1 to {}", size, t.shape[at(dim)]);
    if (step < 1) return refuse("step is {}, but should be positive", step);
    t.shape[at(dim)] = (t.shape[at(dim)] - size) / step + 1;
    t.strides[at(dim)] = saturating_multiply(stride, step);
    t.shape.push_back(size);
    t.strides.push_back(stride);
    return view_of_first(std::move(t));
  };
}

rule permute() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const auto dims, wrap_dimensions(a.integers("dims"), t.dim(), "dims"));
    if (static_cast<int64_t>(dims.size()) != t.dim())
      return refuse("dims has {} numbers, but self, which is {}, has {} dimensions", dims.size(), t.text(), t.dim());
    return permuted(t, dims);
  };
}

rule transpose() {  // by position: swapaxes names its dimensions differently
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    const std::string_view first = a.name(1), second = a.name(2);
    CUDAL1_TRY(const int64_t d0, wrap_dimension(a.integer(first), t.dim(), first));
    CUDAL1_TRY(const int64_t d1, wrap_dimension(a.integer(second), t.dim(), second));
    auto dims = counted(t.dim());
    if (!dims.empty()) std::swap(dims[at(d0)], dims[at(d1)]);
    return permuted(t, dims);
  };
}

// Of a tensor of `least` to `most` dimensions; fewer than two stay as they are.
rule transpose_last(int64_t least, int64_t most) {
  return [=](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, least, most, "self"));
    auto dims = counted(t.dim());
    if (dims.size() >= 2) std::swap(dims[dims.size() - 2], dims[dims.size() - 1]);
    return permuted(t, dims);
  };
}

rule reverse_dimensions() {
  return [](const arguments& a) -> outcome {
    auto dims = counted(a.tensor("self").dim());
    std::reverse(dims.begin(), dims.end());
    return permuted(a.tensor("self"), dims);
  };
}

rule expand() {
  return [](const arguments& a) { return expanded(a.tensor("self"), a.integers("size")); };
}

rule expand_as() {
  return [](const arguments& a) { return expanded(a.tensor("self"), a.tensor("other").shape); };
}

rule squeeze() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    std::vector<int64_t> dims = counted(t.dim());
    if (a.has("dim")) {
      const auto named = a.is_list("dim") ? a.integers("dim") : std::vector<int64_t>{a.integer("dim")};
      CUDAL1_TRY(dims, wrap_dimensions(named, t.dim()));
    }
    tensor_type result{t.type, {}, {}};
    for (int64_t d = 0; d < t.dim(); ++d) {
      if (t.shape[at(d)] == 1 && std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
      result.shape.push_back(t.shape[at(d)]);
      result.strides.push_back(t.strides[at(d)]);
    }
    return view_of_first(std::move(result));
  };
}

rule unsqueeze() {
  return [](const arguments& a) -> outcome {
    auto t = a.tensor("self");
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim() + 1));
    const int64_t stride = dim < t.dim() ? saturating_multiply(t.shape[at(dim)], t.strides[at(dim)]) : 1;
    t.shape.insert(t.shape.begin() + dim, 1);
    t.strides.insert(t.strides.begin() + dim, stride);
    return view_of_first(std::move(t));
  };
}

rule narrow() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    CUDAL1_TRY(const int64_t start, wrap_dimension(a.integer("start"), t.shape[at(dim)], "start"));
    const int64_t length = a.integer("length");
    if (length < 1 || length > t.shape[at(dim)] - start)
      return refuse("length is {}, but should lie in 1 to {}", length, t.shape[at(dim)] - start);
    return ranged(t, dim, start, start + length, 1);
  };
}

rule flatten() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const int64_t first, wrap_dimension(a.integer("start_dim"), t.dim(), "start_dim"));
    CUDAL1_TRY(const int64_t last, wrap_dimension(a.integer("end_dim"), t.dim(), "end_dim"));
    if (first > last) return refuse("start_dim {} comes after end_dim {}", first, last);
    if (t.dim() == 0) return reshaped(t, {1}, without_view::copy);
    if (first == last) return view_of_first(t);
    std::vector<int64_t> shape(t.shape.begin(), t.shape.begin() + first);
    shape.push_back(1);
    for (int64_t d = first; d <= last; ++d)
      shape.back() *= t.shape[at(d)];
    shape.insert(shape.end(), t.shape.begin() + last + 1, t.shape.end());
    return reshaped(t, std::move(shape), without_view::copy);
  };
}

rule unflatten() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    CUDAL1_TRY(const auto sizes, infer_shape(a.integers("sizes"), t.shape[at(dim)]));
    auto shape = t.shape;
    shape.erase(shape.begin() + dim);
    shape.insert(shape.begin() + dim, sizes.begin(), sizes.end());
    return reshaped(t, std::move(shape), without_view::refuse);
  };
}

rule movedim() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const int64_t from, wrap_dimension(a.integer("source"), t.dim(), "source"));
    CUDAL1_TRY(const int64_t to, wrap_dimension(a.integer("destination"), t.dim(), "destination"));
    auto dims = counted(t.dim());
    if (!dims.empty()) {
      dims.erase(dims.begin() + from);
      dims.insert(dims.begin() + to, from);
    }
    return permuted(t, dims);
  };
}

rule movedims() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_TRY(const auto from, wrap_dimensions(a.integers("source"), t.dim(), "source"));
    CUDAL1_TRY(const auto to, wrap_dimensions(a.integers("destination"), t.dim(), "destination"));
    if (from.size() != to.size())
      return refuse("source has {} numbers, but destination has {}", from.size(), to.size());
    if (t.dim() == 0) return view_of_first(t);
    auto rest = counted(t.dim());
    std::erase_if(rest, [&](int64_t d) { return std::find(from.begin(), from.end(), d) != from.end(); });
    std::vector<int64_t> dims(t.shape.size(), -1);
    for (std::size_t i = 0; i < from.size(); ++i)
      dims[at(to[i])] = from[i];
    auto next = rest.begin();
    for (auto& d : dims)
      if (d < 0) d = *next++;
    return permuted(t, dims);
  };
}

rule diagonal() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 2, 64, "self"));
    CUDAL1_TRY(const auto dims, wrap_dimensions({a.integer("dim1"), a.integer("dim2")}, t.dim(), "dim1 and dim2"));
    const int64_t rows = t.shape[at(dims[0])], columns = t.shape[at(dims[1])], offset = a.integer("offset");
    const int64_t length = offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
    if (length < 1) return refuse("diagonal {} of {} has no elements", offset, t.text());
    tensor_type result{t.type, {}, {}};
    for (int64_t d = 0; d < t.dim(); ++d)
      if (d != dims[0] && d != dims[1]) {
        result.shape.push_back(t.shape[at(d)]);
        result.strides.push_back(t.strides[at(d)]);
      }
    result.shape.push_back(length);
    result.strides.push_back(saturating_add(t.strides[at(dims[0])], t.strides[at(dims[1])]));
    return view_of_first(std::move(result));
  };
}

rule alias() {
  return [](const arguments& a) { return view_of_first(a.tensor(0)); };
}

}  // namespace

rule slice() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    const int64_t size = t.shape[at(dim)], step = a.integer("step");
    if (step < 1 || step > size) return refuse("step is {}, but should lie in 1 to {}", step, size);
    return ranged(t, dim, clamped(a.optional_integer("start").value_or(0), size),
                  clamped(a.optional_integer("end").value_or(size), size), step);
  };
}

rule select() {
  return [](const arguments& a) -> outcome {
    auto t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    CUDAL1_CHECK(wrap_dimension(a.integer("index"), t.shape[at(dim)], "index"));
    t.shape.erase(t.shape.begin() + dim);
    t.strides.erase(t.strides.begin() + dim);
    return view_of_first(std::move(t));
  };
}

}  // namespace rules

std::vector<operator_record> view_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::view, {
      {"aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)", view(), {.changes = {effect::onto}, .idle = "its operand has this shape already", .linear = linearity::each_operand}},
      {"aten::reshape(Tensor(a) self, SymInt[] shape) -> Tensor(a)", reshape(), {.changes = {effect::onto}, .may_copy = true, .idle = "its operand has this shape already", .linear = linearity::each_operand}},
      {"aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor", unsafe_view()},
      {"aten::view_as(Tensor(a) self, Tensor other) -> Tensor(a)", view_as()},
      {"aten::reshape_as(Tensor(a) self, Tensor other) -> Tensor(a)", reshape_as(), {.may_copy = true}},
      {"aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)", permute(), {.changes = {effect::onto}, .linear = linearity::each_operand}},
      {"aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> Tensor(a)", transpose(), {.changes = {effect::onto}, .is_self_inverse = true, .swaps = transposition::named, .linear = linearity::each_operand}, {"aten::swapaxes(Tensor(a) self, int axis0, int axis1) -> Tensor(a)", "aten::swapdims"}},
      {"aten::t(Tensor(a) self) -> Tensor(a)", transpose_last(0, 2), {.changes = {effect::onto}, .is_self_inverse = true, .swaps = transposition::of_matrix, .linear = linearity::each_operand}},
      {"aten::mT(Tensor(a) self) -> Tensor(a)", transpose_last(2, 64), {.changes = {effect::onto}, .swaps = transposition::last_two, .linear = linearity::each_operand}},
      {"aten::numpy_T(Tensor(a) self) -> Tensor(a)", reverse_dimensions(), {.changes = {effect::onto}, .swaps = transposition::of_matrix, .linear = linearity::each_operand}},
      {"aten::movedim.int(Tensor(a) self, int source, int destination) -> Tensor(a)", movedim(), {.changes = {effect::onto}, .linear = linearity::each_operand}, {"aten::moveaxis.int"}},
      {"aten::movedim.intlist(Tensor(a) self, int[] source, int[] destination) -> Tensor(a)", movedims(), {.changes = {effect::onto}, .linear = linearity::each_operand}},
      {"aten::expand(Tensor(a) self, SymInt[] size, *, bool implicit=False) -> Tensor(a)", expand(), {.changes = {effect::onto}, .idle = "its operand has this shape already", .spreads = true, .linear = linearity::each_operand}, {"aten::broadcast_to(Tensor(a) self, SymInt[] size) -> Tensor(a)"}},
      {"aten::expand_as(Tensor(a) self, Tensor other) -> Tensor(a)", expand_as(), {.changes = {.what = effect::onto, .operand = "self"}, .idle = "its operand has this shape already", .spreads = true, .reads = reading::values_of_first_only, .linear = linearity::first_operand}},
      {"aten::squeeze(Tensor(a) self) -> Tensor(a)", squeeze(), {.changes = {effect::onto}, .linear = linearity::each_operand}},
      {"aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)", squeeze(), {.changes = {effect::onto}, .linear = linearity::each_operand}},
      {"aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)", squeeze(), {.changes = {effect::onto}, .linear = linearity::each_operand}},
      {"aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)", unsqueeze(), {.changes = {effect::onto}, .linear = linearity::each_operand, .kernel = element_kernel{.form = kernel_form::identity}}},
      {"aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor(a)", slice(), {.moves_start_address = true, .reads = reading::part}},
      {"aten::select.int(Tensor(a) self, int dim, SymInt index) -> Tensor(a)", select(), {.moves_start_address = true, .reads = reading::part}},
      {"aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)", narrow(), {.moves_start_address = true, .reads = reading::part}},
      {"aten::flatten.using_ints(Tensor(a) self, int start_dim=0, int end_dim=-1) -> Tensor(a)", flatten(), {.changes = {effect::onto}, .may_copy = true, .linear = linearity::each_operand}},
      {"aten::unflatten.int(Tensor(a) self, int dim, SymInt[] sizes) -> Tensor(a)", unflatten(), {.changes = {effect::onto}, .linear = linearity::each_operand}},
      {"aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int dim2=1) -> Tensor(a)", diagonal(), {.moves_start_address = true, .reads = reading::part}},
      {"aten::unfold(Tensor(a) self, int dimension, int size, int step) -> Tensor(a)", unfold(), {.reads = reading::part}},
      {"aten::alias(Tensor(a) self) -> Tensor(a)", alias(), {.changes = {effect::onto}, .keeps_zeros = true, .linear = linearity::each_operand}},
      {"aten::detach(Tensor(a) self) -> Tensor(a)", alias(), {.changes = {effect::onto}, .keeps_zeros = true, .linear = linearity::each_operand}},
  });
  // clang-format on
}

}  // namespace cudal1
