// Operators that move elements, some with constants between them.
#include <algorithm>
#include <cmath>

#include "sandbox/program/arithmetic.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace rules {

namespace {

// Negative numbers take away.
expected<std::vector<int64_t>> padded_shape(const std::vector<int64_t>& pads, const tensor_type& t) {
  if (pads.size() % 2 != 0 || pads.empty() || pads.size() > 2 * t.shape.size())
    return refuse("pad has {} numbers, but should have two for each padded dimension of {}", pads.size(), t.text());
  auto shape = t.shape;
  for (std::size_t i = 0; i < pads.size(); ++i) {
    auto& size = shape[shape.size() - 1 - i / 2];
    if (pads[i] < -size) return refuse("pad[{}] takes {} elements from {}", i, -pads[i], size);
    size = saturating_add(size, pads[i]);
  }
  CUDAL1_CHECK(check_sizes(shape));
  return shape;
}

outcome padded(const arguments& a) {
  const auto& t = a.tensor("self");
  const auto pads = a.integers("pad");
  const bool takes = std::any_of(pads.begin(), pads.end(), [](int64_t v) { return v < 0; });
  if (suggested_format(t) != format::contiguous || (takes && !is_plain(t)))
    return not_covered("self is {}: make it contiguous before padding", t.text());
  CUDAL1_TRY(auto shape, padded_shape(pads, t));
  if (std::all_of(pads.begin(), pads.end(), [](int64_t v) { return v == 0; }))
    return not_covered("padding by nothing is not supported: use clone");
  return one(contiguous(t.type, std::move(shape)));
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
    if (!is_plain(t)) return not_covered("self is {}, but must be contiguous here", t.text());
    const auto shifts = a.integers("shifts"), dims = a.integers("dims");
    CUDAL1_CHECK(wrap_dimensions(dims, t.dim(), "dims"));
    if (shifts.empty() || (shifts.size() != dims.size() && !(dims.empty() && shifts.size() == 1)))
      return refuse("shifts has {} numbers, but dims has {}", shifts.size(), dims.size());
    return one(contiguous(t.type, t.shape));
  };
}

// Reflect, replicate or circular padding: with the tensor's own elements.
outcome padded_with_own(const tensor_type& t, std::string_view mode, const std::vector<int64_t>& pads) {
  CUDAL1_CHECK(check_kind(t, mode == "circular" ? any : floats, "self"));
  CUDAL1_TRY(auto shape, padded_shape(pads, t));
  if (!is_plain(t)) return not_covered("self is {}, but must be contiguous here", t.text());
  const auto dims = static_cast<int64_t>(pads.size() / 2);
  if (dims > 3) return refuse("pad should have two numbers for each of at most three dimensions");
  CUDAL1_CHECK(check_rank(t, mode == "circular" ? dims + 2 : dims + 1, dims + 2, "self"));
  for (std::size_t i = 0; i < pads.size(); ++i) {
    const int64_t size = t.shape[t.shape.size() - 1 - i / 2];
    const int64_t most = mode == "reflect" ? size - 1 : mode == "circular" ? size : pads[i];
    if (pads[i] < 0) return not_covered("negative padding is not supported with mode \"{}\": use slice", mode);
    if (pads[i] > most) return refuse("pad[{}] is {}, but may be at most {} for a size of {}", i, pads[i], most, size);
  }
  return one(contiguous(t.type, std::move(shape)));
}

rule padded_in(std::string_view mode) {
  return [=](const arguments& a) { return padded_with_own(a.tensor("self"), mode, a.integers("padding")); };
}

// aten::pad's value is a real number by its schema, for tensors of integers too: -100.0 for labels that a loss ignores.
scalar_value as_whole_number(const scalar_value& v) {
  constexpr double exact = 1ll << 53;
  const double* real = std::get_if<double>(&v);
  if (real == nullptr || std::trunc(*real) != *real || std::abs(*real) > exact) return v;
  return static_cast<int64_t>(*real);
}

rule pad() {
  return [](const arguments& a) -> outcome {
    const auto mode = a.text("mode");
    if (mode != "constant" && mode != "reflect" && mode != "replicate" && mode != "circular")
      return refuse("mode is \"{}\", but should be \"constant\", \"reflect\", \"replicate\" or \"circular\"", mode);
    if (mode != "constant" && !a.is_null("value")) return refuse("value should be null with mode \"{}\"", mode);
    if (mode != "constant") return padded_with_own(a.tensor("self"), mode, a.integers("pad"));
    if (!a.is_null("value"))
      CUDAL1_CHECK(check_scalar_fits(as_whole_number(a.scalar("value")), a.tensor("self").type, "value"));
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
      return refuse("repeats has {} numbers, but self, which is {}, has more dimensions", shape.size(), t.text());
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
    if (repeats < 1) return refuse("repeats is {}, but should be positive", repeats);
    if (!a.is_null("output_size")) return not_covered("output_size is not supported: leave it out");
    CUDAL1_CHECK(check_rank(t, 1, 64, "self"));
    if (a.is_null("dim")) return one(contiguous(t.type, {saturating_multiply(t.numel(), repeats)}));
    CUDAL1_TRY(const int64_t dim, wrap_dimension(*a.optional_integer("dim"), t.dim()));
    auto shape = t.shape;
    shape[at(dim)] = saturating_multiply(shape[at(dim)], repeats);
    return one(contiguous(t.type, std::move(shape)));
  };
}

}  // namespace

}  // namespace rules

std::vector<operator_record> rearrangement_records() {
  using namespace rules;
  // clang-format off
  return of_kind(operator_kind::rearrangement, {
      {"aten::flip(Tensor self, int[] dims) -> Tensor", flip(), {.changes = {effect::onto}, .selects = true}},
      {"aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor", roll(), {.changes = {effect::onto}, .selects = true}},
      {"aten::pad(Tensor self, SymInt[] pad, str mode=\"constant\", float? value=None) -> Tensor", pad()},
      {"aten::constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", constant_pad()},
      {"aten::reflection_pad1d(Tensor self, SymInt[2] padding) -> Tensor", padded_in("reflect")},
      {"aten::replication_pad1d(Tensor self, SymInt[2] padding) -> Tensor", padded_in("replicate")},
      {"aten::reflection_pad2d(Tensor self, SymInt[4] padding) -> Tensor", padded_in("reflect")},
      {"aten::replication_pad2d(Tensor self, SymInt[4] padding) -> Tensor", padded_in("replicate")},
      {"aten::reflection_pad3d(Tensor self, SymInt[6] padding) -> Tensor", padded_in("reflect")},
      {"aten::replication_pad3d(Tensor self, SymInt[6] padding) -> Tensor", padded_in("replicate")},
      {"aten::diag(Tensor self, int diagonal=0) -> Tensor", diag(), {.reads = reading::part, .diagonal_of = "diagonal"}},
      {"aten::diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", diag_embed(), {.diagonal_of = "offset"}},
      {"aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat(), {.changes = {effect::onto}}},
      {"aten::tile(Tensor self, SymInt[] dims) -> Tensor", tile()},
      {"aten::repeat_interleave.self_int(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor", repeat_interleave()},
      {"aten::tril(Tensor self, SymInt diagonal=0) -> Tensor", triangle(), {.reads = reading::lower_triangle}},
      {"aten::triu(Tensor self, SymInt diagonal=0) -> Tensor", triangle(), {.reads = reading::upper_triangle}},
  });
  // clang-format on
}

}  // namespace cudal1
