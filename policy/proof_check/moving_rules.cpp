#include <algorithm>

#include "policy/proof_check/element_operators.hpp"

namespace cudal1 {

namespace {

using step = element_step;

// The same elements in row-major order.
double same_order(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  if (shape == s.result().shape) return s.element("self", p);
  return s.element("self", place_of(number_of(p, s.result().shape), shape));
}
double same_place(const step& s, const place& p) {
  return s.element("self", p);
}
// With training it is random.
double dropped_out(const step& s, const place& p) {
  return s.boolean("train") ? s.cannot("in training mode") : s.element("input", p);
}
double spread(const step& s, const place& p) {
  return s.broadcast("self", p);
}

double swapped(const step& s, place p, std::size_t a, std::size_t b) {
  std::swap(p[a], p[b]);
  return s.element("self", p);
}
// Its names for the dimensions differ from those of its other names.
double transposed(const step& s, const place& p) {
  const auto dim = [&](std::size_t argument) { return s.dim(s.step().use->arguments[argument].first, 0, p.dims); };
  return swapped(s, p, dim(1), dim(2));
}
double transposed_last(const step& s, const place& p) {
  return p.dims < 2 ? s.element("self", p) : swapped(s, p, p.dims - 2, p.dims - 1);
}
double permuted(const step& s, const place& p) {
  const auto dims = s.integers("dims");
  place from;
  from.dims = p.dims;
  for (std::size_t d = 0; d < p.dims; ++d)
    from[dimension_of(dims[d], p.dims)] = p[d];
  return s.element("self", from);
}

int64_t start_of(const step& s, int64_t size) {
  const int64_t start = s.integer("start", 0);
  return std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
}
double sliced(const step& s, const place& p) {
  const std::size_t d = s.dim("dim", 0, p.dims);
  place from = p;
  from[d] = start_of(s, s.type("self").shape[d]) + p[d] * s.integer("step", 1);
  return s.element("self", from);
}
double flipped(const step& s, const place& p) {
  place from = p;
  for (const int64_t dim : s.integers("dims")) {
    const std::size_t d = dimension_of(dim, p.dims);
    from[d] = s.type("self").shape[d] - 1 - p[d];
  }
  return s.element("self", from);
}
double selected(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  const std::size_t d = s.dim("dim", 0, shape.size());
  const int64_t index = s.integer("index", 0);
  place from;
  from.dims = shape.size();
  for (std::size_t i = 0; i < from.dims; ++i)
    from[i] = i == d ? (index < 0 ? index + shape[d] : index) : p[i < d ? i : i - 1];
  return s.element("self", from);
}

// Windows along a dimension are that dimension, and their elements the last one.
double unfolded(const step& s, const place& p) {
  place from = p;
  --from.dims;
  const std::size_t d = s.dim("dimension", 0, from.dims);
  from[d] = p[d] * s.integer("step", 1) + p[from.dims];
  return s.element("self", from);
}
// The last dimension is the diagonal of two.
double diagonal(const step& s, const place& p) {
  const std::size_t dims = s.type("self").shape.size(), first = s.dim("dim1", 0, dims), second = s.dim("dim2", 1, dims);
  const int64_t offset = s.integer("offset", 0), along = p[p.dims - 1];
  place from;
  from.dims = dims;
  std::size_t next = 0;
  for (std::size_t d = 0; d < dims; ++d)
    if (d != first && d != second) from[d] = p[next++];
  from[first] = along + std::max<int64_t>(0, -offset);
  from[second] = along + std::max<int64_t>(0, offset);
  return s.element("self", from);
}

double lower_triangle(const step& s, const place& p) {
  return p[p.dims - 1] - p[p.dims - 2] <= s.integer("diagonal", 0) ? s.element("self", p) : 0;
}
double upper_triangle(const step& s, const place& p) {
  return p[p.dims - 1] - p[p.dims - 2] >= s.integer("diagonal", 0) ? s.element("self", p) : 0;
}
// A matrix from its diagonal. (Of a matrix, aten::diag takes the diagonal.)
double diagonal_matrix(const step& s, const place& p, int64_t offset) {
  const auto& shape = s.type("self").shape;
  if (shape.size() + 1 != p.dims || offset != 0) return s.cannot("of a diagonal beside the main one");
  if (p[p.dims - 1] != p[p.dims - 2]) return 0;
  place from = p;
  --from.dims;
  return s.element("self", from);
}
double diag(const step& s, const place& p) {
  return diagonal_matrix(s, p, s.integer("diagonal", 0));
}
double diag_embed(const step& s, const place& p) {
  if (s.integer("dim1", -2) != -2 || s.integer("dim2", -1) != -1) return s.cannot("over other dimensions");
  return diagonal_matrix(s, p, s.integer("offset", 0));
}
double repeated(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  place from;
  from.dims = shape.size();
  for (std::size_t d = 0; d < from.dims; ++d)
    from[d] = p[d + p.dims - from.dims] % shape[d];
  return s.element("self", from);
}

const std::vector<tensor_argument>& list_of(const step& s) {
  return std::get<std::vector<tensor_argument>>(*s.step().argument("tensors"));
}
double joined(const step& s, const place& p) {
  const auto& parts = list_of(s);
  const std::size_t d = s.dim("dim", 0, p.dims);
  place from = p;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].type.shape.size() != p.dims) continue;  // an empty tensor of one dimension
    if (from[d] < parts[i].type.shape[d]) return s.element_of_list("tensors", i, from);
    from[d] -= parts[i].type.shape[d];
  }
  return s.cannot("of tensors that are too short");
}
double stacked(const step& s, const place& p) {
  const std::size_t d = s.dim("dim", 0, p.dims);
  place from;
  from.dims = p.dims - 1;
  for (std::size_t i = 0; i < from.dims; ++i)
    from[i] = p[i < d ? i : i + 1];
  return s.element_of_list("tensors", static_cast<std::size_t>(p[d]), from);
}

// Two numbers for each dimension, the last one first.
double padded(const step& s, const place& p) {
  if (string_argument(s.step(), "mode").value_or("constant") != "constant") return s.cannot("by repetition");
  const auto& shape = s.type("self").shape;
  const auto pad = s.integers("pad");
  place from = p;
  for (std::size_t i = 0; 2 * i < pad.size(); ++i) {
    const std::size_t d = p.dims - 1 - i;
    from[d] -= pad[2 * i];
    if (from[d] < 0 || from[d] >= shape[d]) return s.number("value", 0);
  }
  return s.element("self", from);
}

template <int Number>
double constant(const step&, const place&) {
  return Number;
}
double filled(const step& s, const place&) {
  return s.number("fill_value", 0);
}
double counted(const step& s, const place& p) {
  return s.number("start", 0) + static_cast<double>(p[0]) * s.number("step", 1);
}

// ---- internal operators ----

double constant_fill(const step& s, const place&) {
  return s.element("number", place_of(0, s.type("number").shape));
}
double interleaved(const step& s, const place& p) {
  const auto& parts = list_of(s);
  const auto count = static_cast<int64_t>(parts.size());
  const int64_t n = number_of(p, s.result().shape);
  return s.element_of_list("tensors", static_cast<std::size_t>(n % count),
                           place_of(n / count, parts.front().type.shape));
}

double merged_dimensions(const step& s, const place& p) {
  const auto& shape = s.type("self").shape;
  const auto parts = s.integers("parts");
  place from;
  for (std::size_t d = 0; d < parts.size(); ++d) {
    if (parts[d] == 1) {
      from[from.dims++] = p[d];
      continue;
    }
    const int64_t inner = shape[from.dims + 1];
    from[from.dims++] = p[d] / inner;
    from[from.dims++] = p[d] % inner;
  }
  return s.element("self", from);
}

}  // namespace

element_rules moving_rules() {
  element_rules out = {{"aten::dropout", dropped_out},
                       {"aten::transpose.int", transposed},
                       {"aten::t", transposed_last},
                       {"aten::mT", transposed_last},
                       {"aten::permute", permuted},
                       {"aten::slice.Tensor", sliced},
                       {"aten::narrow", sliced},
                       {"aten::flip", flipped},
                       {"aten::select.int", selected},
                       {"aten::unfold", unfolded},
                       {"aten::diagonal", diagonal},
                       {"aten::tril", lower_triangle},
                       {"aten::triu", upper_triangle},
                       {"aten::diag", diag},
                       {"aten::diag_embed", diag_embed},
                       {"aten::repeat", repeated},
                       {"aten::pad", padded},
                       {"aten::constant_pad_nd", padded},
                       {"aten::cat", joined},
                       {"aten::stack", stacked},
                       {"aten::full", filled},
                       {"aten::full_like", filled},
                       {"aten::arange", counted},
                       {"cudal1::constant_fill", constant_fill},
                       {"cudal1::interleave", interleaved},
                       {"cudal1::merged_dimensions", merged_dimensions}};
  for (const char* op : {"aten::zeros", "aten::zeros_like", "aten::new_zeros"})
    out.emplace_back(op, constant<0>);
  for (const char* op : {"aten::ones", "aten::ones_like", "aten::new_ones"})
    out.emplace_back(op, constant<1>);
  for (const char* op : {"aten::expand", "aten::expand_as"})
    out.emplace_back(op, spread);
  for (const char* op : {"aten::alias", "aten::detach", "aten::contiguous", "aten::clone", "aten::to.dtype",
                         "aten::_to_copy", "aten::type_as", "aten::lift_fresh_copy"})
    out.emplace_back(op, same_place);
  for (const char* op : {"aten::view", "aten::reshape", "aten::_unsafe_view", "aten::view_as", "aten::reshape_as",
                         "aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", "aten::unsqueeze",
                         "aten::flatten.using_ints", "aten::unflatten.int"})
    out.emplace_back(op, same_order);
  return out;
}

}  // namespace cudal1
