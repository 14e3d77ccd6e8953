// Joining, padding, repeating and making tensors.
#include <algorithm>
#include <cmath>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/operator_rules.hpp"

namespace cudal1::rules {

namespace {

std::size_t at(int64_t d) {
  return static_cast<std::size_t>(d);
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
      if (t.dim() == 1) t = contiguous(t.type, {1, t.shape[0]});  // how a row is laid out does not matter
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

namespace {

// Reflected, replicated or circular: the elements beyond the edge are the tensor's own.
outcome padded_with_own(const arguments& a) {
  const auto& t = a.tensor("self");
  const auto mode = a.text("mode");
  if (mode != "reflect" && mode != "replicate" && mode != "circular")
    return refuse("mode is \"{}\", and should be \"constant\", \"reflect\", \"replicate\" or \"circular\"", mode);
  if (!a.is_null("value")) return refuse("value should be null with mode \"{}\"", mode);
  CUDAL1_CHECK(check_kind(t, floats, "self"));
  CUDAL1_TRY(auto shape, padded_shape(a, t));
  if (!is_plain(t)) return not_covered("self is {}, and our rules want it contiguous here", t.text());
  const auto pads = a.integers("pad");
  const auto dims = static_cast<int64_t>(pads.size() / 2);
  if (dims > 3) return refuse("pad should have two numbers for each of at most three dimensions");
  CUDAL1_CHECK(check_rank(t, mode == "circular" ? dims + 2 : dims + 1, dims + 2, "self"));
  for (std::size_t i = 0; i < pads.size(); ++i) {
    const int64_t size = t.shape[t.shape.size() - 1 - i / 2];
    const int64_t most = mode == "reflect" ? size - 1 : mode == "circular" ? size : pads[i];
    if (pads[i] > most) return refuse("pad[{}] is {}, and may be at most {} of a size of {}", i, pads[i], most, size);
  }
  return one(contiguous(t.type, std::move(shape)));
}

}  // namespace

rule pad() {
  return [](const arguments& a) -> outcome {
    if (a.text("mode") != "constant") return padded_with_own(a);
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

rule tile() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    auto times = a.integers("dims");
    CUDAL1_CHECK(check_sizes(times));
    if (times.size() < t.shape.size()) times.insert(times.begin(), t.shape.size() - times.size(), 1);
    for (std::size_t i = 1; i <= t.shape.size(); ++i)
      times[times.size() - i] = saturating_multiply(times[times.size() - i], t.shape[t.shape.size() - i]);
    return one(contiguous(t.type, std::move(times)));
  };
}

rule repeat_interleave() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    const int64_t repeats = a.integer("repeats");
    if (repeats < 1) return refuse("repeats is {}, and should be positive", repeats);
    if (!a.is_null("output_size")) return not_covered("output_size is outside our rules: leave it out");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    if (a.is_null("dim")) return one(contiguous(t.type, {saturating_multiply(t.numel(), repeats)}));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(*a.optional_integer("dim"), t.dim()));
    auto shape = t.shape;
    shape[at(dim)] = saturating_multiply(shape[at(dim)], repeats);
    return one(contiguous(t.type, std::move(shape)));
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

rule filled_new() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    auto shape = a.integers("size");
    CUDAL1_CHECK(check_sizes(shape));
    const dtype type = a.type("dtype").value_or(a.tensor("self").type);
    if (a.has("fill_value")) CUDAL1_CHECK(check_scalar_fits(a.scalar("fill_value"), type, "fill_value"));
    return one(contiguous(type, std::move(shape)));
  };
}

rule filled_with() {
  return [](const arguments& a) -> outcome {
    const auto& t = a.tensor("self");
    CUDAL1_CHECK(check_scalar_fits(a.scalar("value"), t.type, "value"));
    return one({t.type, t.shape, preserved_strides(t)});
  };
}

rule linspace() {
  return [](const arguments& a) -> outcome {
    CUDAL1_CHECK(check_placement(a));
    const int64_t steps = a.integer("steps");
    if (steps < 1) return refuse("steps is {}, and should be positive", steps);
    const dtype type = a.type("dtype").value_or(dtype::float32);
    if (!is_floating(type))
      return not_covered("dtype {} is outside our rules here: use a floating type", name_of(type));
    return one(contiguous(type, {steps}));
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
