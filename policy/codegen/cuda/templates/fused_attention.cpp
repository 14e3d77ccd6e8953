#include "policy/codegen/cuda/templates/fused_attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "policy/graph/alignment.hpp"
#include "policy/graph/proofs.hpp"
#include "policy/tile/c_text.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_depth = 128, k_most_rows = 1 << 24, k_most_batch = int64_t{1} << 24;
constexpr int64_t k_most_shared_bytes = 220 << 10;
constexpr int64_t k_rows_of_warp = 32;
constexpr double k_mma = 4, k_of_score = 14;  // instructions of a thread: of a product of tensor cores, and of a score

enum class mask_form { none, excluded, kept, added, causal };  // excluded, kept: by elements that are true

// What is computed: of each batch softmax(scale q k^T + mask) v.
struct attention_parts {
  std::string q, k, v, mask;  // values; "" for no mask
  tensor_type k_type;         // as rows of keys
  double scale = 1;
  mask_form form = mask_form::none;
  std::vector<int> left_out;
};

tensor_type exchanged(tensor_type t) {
  std::swap(t.shape[t.shape.size() - 2], t.shape.back());
  std::swap(t.strides[t.strides.size() - 2], t.strides.back());
  return t;
}

bool is_product(const graph_step& s) {
  return s.task_op() == "aten::bmm" || s.task_op() == "aten::matmul";
}

std::string second_of(const graph& g, const graph_step& s) {
  return operand_of(g, s, s.task_op() == "aten::bmm" ? "mat2" : "other");
}

// What lies between the first product and the softmax, from its end on. Nothing where one of them is something else.
bool take_between(const graph& g, const graph_step& s, attention_parts& out) {
  const auto scalar = number_argument(s, "other");
  if (s.task_op() == "aten::mul.Scalar" && scalar) {
    out.scale *= *scalar;
  } else if (s.task_op() == "aten::div.Scalar" && scalar && *scalar != 0) {
    out.scale /= *scalar;
  } else if (s.task_op() == "aten::masked_fill.Scalar" && out.mask.empty() &&
             number_argument(s, "value") == -std::numeric_limits<double>::infinity()) {
    out.mask = operand_of(g, s, "mask");
    out.form = mask_form::excluded;
  } else if (s.task_op() == "aten::add.Tensor" && out.mask.empty() &&
             out.scale == 1 &&  // or the mask would be scaled, too
             number_argument(s, "alpha").value_or(1) == 1) {
    out.mask = operand_of(g, s, "other");
    out.form = mask_form::added;
  } else {
    return false;
  }
  return true;
}

std::optional<attention_parts> composed_of(const graph& g, const graph_step& last) {
  if (!is_product(last)) return std::nullopt;
  attention_parts out;
  out.v = second_of(g, last);
  const graph_step* s = made_for(g, last.number, operand_of(g, last, "self"));
  const int64_t rank = last.result_types[0].dim();
  if (s == nullptr || s->task_op() != "aten::softmax.int" || s->result_types[0].type != dtype::float32)
    return std::nullopt;
  const int64_t dim = integer_argument(*s, "dim").value_or(0);
  if (dim != -1 && dim != rank - 1) return std::nullopt;
  out.left_out.push_back(s->number);
  s = made_for(g, s->number, operand_of(g, *s, "self"));
  while (s != nullptr && !is_product(*s)) {
    if (!take_between(g, *s, out)) return std::nullopt;
    out.left_out.push_back(s->number);
    s = made_for(g, s->number, operand_of(g, *s, "self"));
  }
  if (s == nullptr) return std::nullopt;
  out.left_out.push_back(s->number);
  out.q = operand_of(g, *s, "self");
  out.k = second_of(g, *s);
  if (g.type_of(out.k).dim() < 2) return std::nullopt;
  out.k_type = exchanged(g.type_of(out.k));
  return out;
}

std::optional<attention_parts> called_by(const graph& g, const graph_step& s) {
  if (s.task_op() != "aten::scaled_dot_product_attention") return std::nullopt;
  attention_parts out;
  out.q = operand_of(g, s, "query");
  out.k = operand_of(g, s, "key");
  out.v = operand_of(g, s, "value");
  out.mask = operand_of(g, s, "attn_mask");
  out.k_type = g.type_of(out.k);
  out.scale = number_argument(s, "scale").value_or(1 / std::sqrt(static_cast<double>(g.type_of(out.q).shape.back())));
  if (!out.mask.empty())
    out.form = g.type_of(out.mask).type == dtype::bool_ ? mask_form::kept : mask_form::added;
  else if (boolean_argument(s, "is_causal").value_or(false))
    out.form = mask_form::causal;
  return out;
}

std::optional<attention_parts> parts_of(const graph& g, const graph_step& s) {
  auto out = called_by(g, s);
  return out ? out : composed_of(g, s);
}

// The batch's dimensions and strides, one of each in front where there is none.
struct batch {
  std::array<int64_t, 2> extents{1, 1};
  int64_t count() const { return extents[0] * extents[1]; }
};
batch batch_of(const tensor_type& t) {
  batch out;
  const std::size_t dims = t.shape.size() - 2;
  for (std::size_t d = 0; d < dims; ++d)
    out.extents[2 - dims + d] = t.shape[d];
  return out;
}
// From batch to batch, of a tensor that may be broadcast.
std::array<int64_t, 2> batch_strides(const tensor_type& t) {
  std::array<int64_t, 2> out{0, 0};
  const std::size_t dims = t.shape.size() < 2 ? 0 : t.shape.size() - 2;
  for (std::size_t d = 0; d < dims; ++d)
    out[2 - dims + d] = t.shape[d] == 1 ? 0 : t.strides[d];
  return out;
}

// Why the kernel cannot read rows of this matrix; "" where it can.
std::string why_no_rows(const graph& g, const std::string& value, const tensor_type& t) {
  const auto by_four = [](int64_t n) { return n % 4 == 0; };
  if (t.type != dtype::float32) return fmt::format("{} is {}", value, name_of(t.type));
  if (t.shape.size() < 3 || t.shape.size() > 4) return fmt::format("{} has {} dimensions", value, t.shape.size());
  if (t.shape.back() % 8 != 0 || t.shape.back() > k_most_depth || t.shape.back() == 0)
    return fmt::format("rows of {} have {} elements, not a multiple of 8 up to {}", value, t.shape.back(),
                       k_most_depth);
  const bool are_aligned = std::ranges::all_of(t.strides.begin(), t.strides.end() - 1, by_four);
  if (t.strides.back() != 1 || !are_aligned || !starts_aligned(g, value))
    return fmt::format("rows of {} are no vectors", value);
  return "";
}

std::string why_no_mask(const attention_parts& of, const tensor_type& mask, const tensor_type& scores) {
  const bool is_flag = of.form == mask_form::excluded || of.form == mask_form::kept;
  if (mask.type != (is_flag ? dtype::bool_ : dtype::float32)) return fmt::format("its mask is {}", name_of(mask.type));
  if (mask.shape.size() > scores.shape.size()) return "its mask has more dimensions than its scores";
  for (std::size_t d = 0; d < mask.shape.size(); ++d)
    if (mask.shape[mask.shape.size() - 1 - d] != 1 &&
        mask.shape[mask.shape.size() - 1 - d] != scores.shape[scores.shape.size() - 1 - d])
      return "its mask does not fit its scores";
  return "";
}

expected<void> fits(const graph& g, const graph_step& s) {
  const auto of = parts_of(g, s);
  if (!of) return fail(errc::unsupported, "step {} ({}) is no attention", s.number, s.task_op());
  const auto no = [&](std::string_view why) {
    return fail(errc::unsupported, "step {} ({}) stays a library call: {}", s.number, s.task_op(), why);
  };
  const tensor_type &q = g.type_of(of->q), &v = g.type_of(of->v), &out = s.result_types[0];
  for (const auto& [value, type] : {std::pair{of->q, q}, {of->k, of->k_type}, {of->v, v}})
    if (const auto why = why_no_rows(g, value, type); !why.empty()) return no(why);
  if (batch_of(q).extents != batch_of(of->k_type).extents || batch_of(q).extents != batch_of(v).extents ||
      q.shape.size() != v.shape.size())
    return no("its matrices are of different batches");
  const std::size_t row = q.shape.size() - 2;
  if (of->k_type.shape[row] != v.shape[row]) return no("its mask makes more keys of one");
  if (q.shape[row] < 1 || v.shape[row] < 1 || q.shape[row] > k_most_rows || v.shape[row] > k_most_rows ||
      batch_of(q).count() < 1 || batch_of(q).count() > k_most_batch)
    return no("it has no rows, or too many");
  if (out.strides.back() != 1 || out.strides[row] % 2 != 0) return no("its result's rows are not contiguous");
  if (of->mask.empty()) return {};
  tensor_type scores = q;
  scores.shape.back() = v.shape[row];
  if (const auto why = why_no_mask(*of, g.type_of(of->mask), scores); !why.empty()) return no(why);
  return {};
}

template_operands operands(const graph& g, const graph_step& s) {
  const auto of = *parts_of(g, s);
  template_operands out;
  const auto tensor = [&](const char* name, const std::string& value) {
    out.arguments.emplace_back(name, tensor_argument{value, g.type_of(value)});
  };
  tensor("q", of.q);
  tensor("k", of.k);
  tensor("v", of.v);
  if (!of.mask.empty()) tensor("mask", of.mask);
  out.arguments.emplace_back("scale", scalar_value(of.scale));
  out.arguments.emplace_back("form", scalar_value(static_cast<int64_t>(of.form)));
  out.arguments.emplace_back("keys_last", scalar_value(s.task_op() != "aten::scaled_dot_product_attention"));
  out.left_out = of.left_out;
  return out;
}

int64_t last_element(const tensor_type& t) {
  int64_t last = 0;
  for (std::size_t d = 0; d < t.shape.size(); ++d)
    last += (t.shape[d] - 1) * t.strides[d];
  return last + 1;
}

// The offset of a block's batch, in C.
std::string batch_offset(const tensor_type& t, const batch& of) {
  const auto strides = batch_strides(t);
  return fmt::format("batch / {} * {}LL + batch % {} * {}LL", of.extents[1], strides[0], of.extents[1], strides[1]);
}

expected<template_kernel> write(const graph& g, const graph_step& s, const tunable_values& chosen) {
  using tile::value;
  const auto named = [&](const char* argument) { return *tensor_argument_name(s, argument); };
  const tensor_type q = g.type_of(named("q")), v = g.type_of(named("v"));
  const tensor_type k = *boolean_argument(s, "keys_last") ? exchanged(g.type_of(named("k"))) : g.type_of(named("k"));
  const tensor_type& result = s.result_types[0];
  const auto form = static_cast<mask_form>(*integer_argument(s, "form"));
  const std::size_t row = q.shape.size() - 2;
  const int64_t depth = q.shape.back(), width = v.shape.back(), rows = q.shape[row], count = v.shape[row];
  const auto of = [&](const char* name, int64_t usual) {
    const auto found = chosen.find(name);
    return found == chosen.end() ? usual : found->second;
  };
  const int64_t keys = of("keys", 32), warps = of("warps", 4);
  const int64_t block_rows = k_rows_of_warp * warps, row_blocks = (rows + block_rows - 1) / block_rows;
  const int64_t floats = block_rows * (depth + 4) + 2 * keys * (depth + width + 8);
  if (4 * floats > k_most_shared_bytes)
    return fail(errc::unsupported, "{} keys and {} warps of {} and {} elements need {} bytes of shared memory", keys,
                warps, depth, width, 4 * floats);
  const batch batches = batch_of(q);
  tile::kernel_builder b(32 * warps, batches.count() * row_blocks);
  template_kernel out;
  for (const auto& [argument, type] : {std::pair{"q", &q}, {"k", &k}, {"v", &v}})
    out.reads.emplace_back(b.tensor(argument, dtype::float32, last_element(*type)), argument);
  const bool has_mask = form != mask_form::none && form != mask_form::causal;
  tensor_type mask;
  if (has_mask) {
    mask = g.type_of(named("mask"));
    out.reads.emplace_back(b.tensor("mask", mask.type, last_element(mask)), "mask");
  }
  out.writes = {b.tensor("out", dtype::float32, last_element(result))};
  const auto shared = b.dynamic("shared", dtype::float32, 0, floats);
  b.add({tile::raw{fmt::format("const int batch = (int)(blockIdx.x / {}u), first_row = (int)(blockIdx.x % {}u) * {};",
                               row_blocks, row_blocks, block_rows),
                   {"batch", "first_row"}}});
  // In powers of two.
  const std::string scale = c_literal(*number_argument(s, "scale") * std::numbers::log2e, dtype::float32);
  std::string score = fmt::format("return s * {};", scale), masked = "return false;";
  if (has_mask) {
    const std::size_t dims = mask.shape.size();
    const auto apart = [&](std::size_t from_end) {
      return dims < from_end || mask.shape[dims - from_end] == 1 ? 0 : mask.strides[dims - from_end];
    };
    const std::string element =
        fmt::format("mask[{} + row * {}LL + column * {}LL]", batch_offset(mask, batches), apart(2), apart(1));
    if (form == mask_form::added)
      score =
          fmt::format("return fmaf(s, {}, {} * {});", scale, element, c_literal(std::numbers::log2e, dtype::float32));
    else
      masked = fmt::format("return {}{};", form == mask_form::kept ? "!" : "", element);
  } else if (form == mask_form::causal) {
    masked = "return column > row;";
  }
  const bool masks = form != mask_form::none && form != mask_form::added;
  const int64_t tiles = (count + keys - 1) / keys;
  const int64_t products = 6 * (keys / 8) * ((depth + width) / 8);
  const double of_tile = k_mma * static_cast<double>(products) + k_of_score * static_cast<double>(keys);
  b.add({tile::call{
      value::operation(
          fmt::format(
              "attention_rows<attention_sizes<{}, {}, {}, {}>, {}>(q + {}, {}LL, k + {}, {}LL, v + {}, {}LL, out + "
              "{}, {}LL, first_row, {}, {}, shared, [&](int row, int column, float s) {{ {} }}, [&](int row, int "
              "column) {{ {} }})",
              depth, width, keys, warps, masks, batch_offset(q, batches), q.strides[row], batch_offset(k, batches),
              k.strides[row], batch_offset(v, batches), v.strides[row], batch_offset(result, batches),
              result.strides[row], rows, count, score, masked),
          {}, dtype::int32, static_cast<double>(tiles) * of_tile),
      {out.writes[0], shared}}});
  out.comment =
      fmt::format("attention of {} rows to {} keys of {} elements, {} batches", rows, count, depth, batches.count());
  out.statements = std::move(b).finish();
  return out;
}

}  // namespace

kernel_template attention() {
  return {.name = "attention",
          .summary =
              "the weights stay in registers, and keys and values come in tiles; products of float32 as three of "
              "TF32 parts",
          .tunables = {{"keys", {16, 32}}, {"warps", {2, 4, 8}}},
          .fits = fits,
          .write = write,
          .operands = operands};
}

}  // namespace cudal1
