// Indexing, joining, padding and making tensors. Index values are data: ATen's CPU kernels check every one of them
// against the size of the dimension and throw (embedding, gather, index_select and the losses with class indices).
#include <algorithm>
#include <cmath>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operator_rules.hpp"

namespace cudal1::rules {

namespace {

std::size_t at(int64_t d) {
  return static_cast<std::size_t>(d);
}

expected<void> check_index(const tensor_type& t, std::string_view name, bool int32_too) {
  if (t.type == dtype::int64 || (int32_too && t.type == dtype::int32)) return {};
  return refuse("{} is {}, and should be {}", name, t.text(), int32_too ? "int64 or int32" : "int64");
}

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

expected<std::vector<int64_t>> padded_shape(const arguments& a, const tensor_type& t) {
  const auto pads = a.integers("pad");
  if (pads.size() % 2 != 0 || pads.empty() || pads.size() > 2 * t.shape.size())
    return refuse("pad has {} numbers, and should have two for each padded dimension of {}", pads.size(), t.text());
  auto shape = t.shape;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    if (pads[i] < 0) return not_covered("negative padding is outside our rules: use slice");
    auto& size = shape[shape.size() - 1 - i / 2];
    size = saturating_add(size, pads[i]);
  }
  if (shape == t.shape) return not_covered("padding by nothing is outside our rules: use clone");
  return shape;
}

outcome padded(const arguments& a) {
  const auto& t = a.tensor("self");
  if (suggested_format(t) != format::contiguous)
    return not_covered("self is {}: make it contiguous before padding", t.text());
  CUDAL1_TRY(auto shape, padded_shape(a, t));
  return one(contiguous(t.type, std::move(shape)));
}

expected<void> check_sizes(const std::vector<int64_t>& shape) {
  if (std::all_of(shape.begin(), shape.end(), [](int64_t s) { return s >= 1; })) return {};
  return refuse("size {} should be positive", shape_text(shape));
}

dtype type_of(const scalar_value& s) {
  return std::holds_alternative<bool>(s)      ? dtype::bool_
         : std::holds_alternative<int64_t>(s) ? dtype::int64
                                              : dtype::float32;
}

}  // namespace

rule embedding() {
  return [](const arguments& a) -> outcome {
    const auto &weight = a.tensor("weight"), &indices = a.tensor("indices");
    CUDAL1_CHECK(check_rank(weight, 2, 2, "weight"));
    CUDAL1_CHECK(check_index(indices, "indices", true));
    auto shape = indices.shape;
    shape.push_back(weight.shape[1]);
    return one(contiguous(weight.type, std::move(shape)));
  };
}

rule gather() {
  return [](const arguments& a) -> outcome {
    const auto &t = a.tensor("self"), &index = a.tensor("index");
    CUDAL1_CHECK(check_index(index, "index", false));
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
    CUDAL1_CHECK(check_index(index, "index", true));
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_CHECK(check_rank(index, 1, 1, "index"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    auto shape = t.shape;
    shape[at(dim)] = index.shape[0];
    return one(contiguous(t.type, std::move(shape)));
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
      if (t.shape != first.shape) return refuse("{} and {} should have one shape", first.text(), t.text());
      if (!is_plain(t)) return not_covered("{} should be contiguous to be stacked", t.text());
    }
    auto shape = first.shape;
    shape.insert(shape.begin() + dim, static_cast<int64_t>(tensors.size()));
    return one(contiguous(types.result(), std::move(shape)));
  };
}

rule flip() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(wrap_dimensions(a.integers("dims"), t.dim(), "dims"));
    return one({t.type, t.shape, preserved_strides(t)});
  };
}

rule roll() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    if (!is_plain(t)) return not_covered("self is {}, and our rules want it contiguous here", t.text());
    const auto shifts = a.integers("shifts"), dims = a.integers("dims");
    CUDAL1_CHECK(wrap_dimensions(dims, t.dim(), "dims"));
    if (shifts.empty() || (shifts.size() != dims.size() && !(dims.empty() && shifts.size() == 1)))
      return refuse("shifts has {} numbers, and dims {}", shifts.size(), dims.size());
    return one(contiguous(t.type, t.shape));
  };
}

rule pad() {
  return [](const arguments& a) -> outcome {
    if (a.text("mode") != "constant")
      return not_covered("mode \"{}\" is outside our rules, which cover \"constant\"", a.text("mode"));
    if (!a.is_null("value")) CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), a.tensor("self").type, "value"));
    return padded(a);
  };
}

rule constant_pad() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), a.tensor("self").type, "value"));
    return padded(a);
  };
}

rule triangle() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 2, 64, "self"));
    return one(contiguous(t.type, t.shape));
  };
}

rule diag() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 2, "self"));
    const int64_t offset = a.integer("diagonal");
    if (t.dim() == 1) {
      const int64_t size = t.shape[0] + std::abs(offset);
      return one(contiguous(t.type, {size, size}));
    }
    const int64_t rows = t.shape[0], columns = t.shape[1];
    const int64_t length = offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns);
    if (length < 1) return refuse("diagonal {} of {} has no elements", offset, t.text());
    return one(contiguous(t.type, {length}));
  };
}

rule diag_embed() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_TRY(auto dims, wrap_dimensions({a.integer("dim1"), a.integer("dim2")}, t.dim() + 1, "dim1 and dim2"));
    std::sort(dims.begin(), dims.end());
    auto shape = t.shape;
    const int64_t size = shape.back() + std::abs(a.integer("offset"));
    shape.pop_back();
    shape.insert(shape.begin() + dims[0], size);
    shape.insert(shape.begin() + dims[1], size);
    return one(contiguous(t.type, std::move(shape)));
  };
}

rule repeat() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    auto shape = a.integers("repeats");
    if (shape.size() < t.shape.size())
      return refuse("repeats has {} numbers, and self, which is {}, more dimensions", shape.size(), t.text());
    CUDAL1_CHECK(check_sizes(shape));
    for (std::size_t i = 1; i <= t.shape.size(); ++i)
      shape[shape.size() - i] = saturating_multiply(shape[shape.size() - i], t.shape[t.shape.size() - i]);
    return one(contiguous(t.type, std::move(shape)));
  };
}

rule topk() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_kind(t, numbers, "self"));
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(a.integer("dim"), t.dim()));
    const int64_t k = a.integer("k");
    auto shape = t.shape;
    if (k < 1 || k > shape[at(dim)]) return refuse("k is {}, and should lie in 1 to {}", k, shape[at(dim)]);
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

rule filled(bool has_value) {
  return [=](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    auto shape = a.integers("size");
    CUDAL1_CHECK(check_sizes(shape));
    dtype type = has_value ? type_of(a.scalar("fill_value")) : dtype::float32;
    type = a.type("dtype").value_or(type);
    if (has_value) CUDAL1_CHECK(check_scalar_fits(a.scalar("fill_value"), type, "fill_value"));
    return one(contiguous(type, std::move(shape)));
  };
}

rule filled_like() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_placement(a));
    if (!a.is_null("memory_format") && a.text("memory_format") != "preserve_format")
      return not_covered("memory_format is outside our rules here: leave it out");
    const dtype type = a.type("dtype").value_or(t.type);
    if (a.has("fill_value")) CUDAL1_CHECK(check_scalar_fits(a.scalar("fill_value"), type, "fill_value"));
    return one({type, t.shape, preserved_strides(t)});
  };
}

rule eye() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const int64_t n = a.integer("n"), m = a.has("m") ? a.integer("m") : n;
    CUDAL1_CHECK(check_sizes({n, m}));
    return one(contiguous(a.type("dtype").value_or(dtype::float32), {n, m}));
  };
}

rule arange() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const auto number = [&](std::string_view name, int64_t otherwise) {
      return a.has(name) ? a.scalar(name) : scalar_value(otherwise);
    };
    const scalar_value ends[] = {number("start", 0), number("end", 0), number("step", 1)};
    if (!std::all_of(std::begin(ends), std::end(ends), [](const auto& s) { return s.index() == 1; }))
      return not_covered("only integer bounds and steps are inside our rules: convert the result");
    const int64_t start = std::get<int64_t>(ends[0]), end = std::get<int64_t>(ends[1]),
                  step = std::get<int64_t>(ends[2]);
    constexpr int64_t limit = int64_t{1} << 31;
    if (std::abs(saturating_add(start, 1)) > limit || std::abs(saturating_add(end, 1)) > limit)
      return refuse("the range {} to {} is too large", start, end);
    if (step < 1 || start >= end)
      return refuse("the range {} to {} by {} should go up and not be empty", start, end, step);
    const dtype type = a.type("dtype").value_or(dtype::int64);
    for (const auto bound : {start, end})
      CUDAL1_CHECK(check_scalar_fits(scalar_value(bound), type, "a bound"));
    if (type == dtype::bool_) return refuse("dtype should be a type of numbers");
    return one(contiguous(type, {(end - start - 1) / step + 1}));
  };
}

rule scalar_tensor() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const dtype type = a.type("dtype").value_or(dtype::float32);
    CUDAL1_CHECK(check_scalar_fits(a.scalar("s"), type, "s"));
    return one(contiguous(type, {}));
  };
}

}  // namespace cudal1::rules
