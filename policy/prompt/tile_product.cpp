// Frames of kernels that compute a product and what follows on its sums.
#include <algorithm>

#include <fmt/format.h>

#include "policy/prompt/tile_frame.hpp"
#include "policy/tile/c_text.hpp"
#include "sandbox/program/operators/record.hpp"

namespace cudal1 {

namespace {

constexpr int64_t product_threads = 256;  // two warps down, four across

bool is_one_or_left_out(const json* value) {
  return value == nullptr || (value->is_int() && value->as_int() == 1) ||
         (value->is_number() && !value->is_int() && value->as_number() == 1);
}

const tensor_declaration* given(const task& t, const aten_step& s, const char* argument) {
  const auto* value = step_argument(s, argument);
  if (value == nullptr || !value->is_string()) return nullptr;
  for (const auto* list : {&t.reference.text.inputs, &t.reference.text.weights})
    for (const auto& d : *list)
      if (d.name == value->as_string()) return &d;
  return nullptr;
}

bool is_operand(const tensor_declaration* d) {
  return d != nullptr && d->type.is_contiguous() && (d->type.type == dtype::float32 || is_half(d->type.type));
}

// The product, its operands and sizes; none if there is none of them, or another one.
std::optional<tile_frame> product_in(const task& t) {
  std::optional<tile_frame> out;
  for (const auto& each : t.reference.text.steps) {
    const auto& s = std::get<aten_step>(each);
    const auto* op = find_operator(s.op);
    if (op == nullptr || op->record == nullptr) return std::nullopt;
    const auto& record = *op->record;
    if (record.kind == operator_kind::pointwise) continue;
    const auto& names = record.traits.product;
    if (record.kind != operator_kind::product || *names.left == 0 || out) return std::nullopt;
    const auto *left = given(t, s, names.left), *right = given(t, s, names.right);
    if (!is_operand(left) || !is_operand(right) || left->name == right->name || right->type.dim() != 2 ||
        left->type.dim() < 2 || left->type.type != right->type.type || !s.precision.empty() ||
        !is_one_or_left_out(step_argument(s, "alpha")) || !is_one_or_left_out(step_argument(s, "beta")))
      return std::nullopt;
    out.emplace();
    out->kind = "product";
    out->left = left->name;
    out->right = right->name;
    out->operand_type = left->type.type;
    out->right_is_transposed = names.right_is_transposed;
    out->terms = left->type.shape.back();
    out->rows = left->type.numel() / std::max<int64_t>(1, out->terms);
    out->columns = right->type.shape[names.right_is_transposed ? 0 : 1];
  }
  return out;
}

std::vector<std::string> tile_choices(const tile_frame& f) {
  constexpr int64_t most_shared = 200 << 10;
  std::vector<std::string> out;
  for (const int64_t rows : {128, 64})
    for (const int64_t columns : {128, 64})
      for (const int64_t depth : {32, 16})
        for (const int64_t stages : {3, 2}) {
          const bool divides = f.rows % rows == 0 && f.columns % columns == 0 && f.terms % depth == 0;
          if (divides && stages * (rows + columns) * depth * size_of(f.operand_type) <= most_shared)
            out.push_back(fmt::format("rows={} columns={} depth={} stages={}", rows, columns, depth, stages));
        }
  return out;
}

}  // namespace

std::optional<tile_frame> product_frame(const task& t) {
  auto out = product_in(t);
  if (!out || t.reference.text.outputs.size() != 1) return std::nullopt;
  const auto& name = t.reference.text.outputs.front();
  const auto& type = t.reference.types.at(name);
  if (type.dim() < 2 || type.shape.back() != out->columns || type.numel() != out->rows * out->columns)
    return std::nullopt;
  for (const auto* list : {&t.reference.text.inputs, &t.reference.text.weights})
    for (const auto& d : *list) {
      if (d.name == out->left || d.name == out->right) continue;
      auto placed = placed_in(d.name, d.type, type.shape, 1);
      if (!placed) return std::nullopt;
      out->read.push_back(std::move(*placed));
    }
  auto placed = placed_in(name, type, type.shape, 1);
  if (!placed || placed->type != out->operand_type) return std::nullopt;
  out->written.push_back(std::move(*placed));
  out->choices = tile_choices(*out);
  if (out->choices.empty()) return std::nullopt;
  return out;
}

framed_kernel product_kernel(const tile_frame& f, const std::string& choice) {
  const int64_t rows = number_in(choice, "rows"), columns = number_in(choice, "columns"),
                depth = number_in(choice, "depth"), stages = number_in(choice, "stages");
  const auto type = memory_type(f.operand_type);
  framed_kernel out;
  out.launch.kernel = "kernel";
  out.launch.grid = {f.columns / columns, f.rows / rows, 1};
  out.launch.block = {product_threads, 1, 1};
  out.launch.shared_bytes = stages * (rows + columns) * depth * size_of(f.operand_type);
  out.launch.args = arguments_of(f);
  out.begin = fmt::format(
      "// product {}\n#define ROWS {}\n#define COLUMNS {}\n#define DEPTH {}\n#define STAGES {}\n#define TERMS {}\n"
      "#define WIDTH {}\nusing LEFT = shared_tile<{}, ROWS, DEPTH>;\nusing RIGHT = shared_tile<{}, {}>;\n",
      choice, rows, columns, depth, stages, f.terms, f.columns, type, type,
      f.right_is_transposed ? "COLUMNS, DEPTH" : "DEPTH, COLUMNS");
  out.begin += fmt::format(
      "__global__ void __launch_bounds__({}) kernel({}) {{\n  extern __shared__ {} stages[];\n"
      "  const int warp = threadIdx.x / 32, warp_row = warp / 4 * (ROWS / 2), warp_column = warp % 4 * (COLUMNS / 4);\n"
      "  const int first_row = blockIdx.y * ROWS, first_column = blockIdx.x * COLUMNS;\n"
      "  const int own_row = first_row + warp_row, own_column = first_column + warp_column;\n"
      "  const auto left = [&](int stage) {{ return stages + stage * (LEFT::elements + RIGHT::elements); }};\n"
      "  const auto right = [&](int stage) {{ return left(stage) + LEFT::elements; }};\n",
      product_threads, parameters_of(f), type);
  out.begin += fmt::format(
      "  const auto copy = [&](int step, int stage) {{\n"
      "    copy_to_tile<LEFT, {0}>(left(stage), part_of_matrix({1}_in + (long long)first_row * TERMS + step * DEPTH, "
      "TERMS, ROWS, DEPTH));\n    copy_to_tile<RIGHT, {0}>(right(stage), part_of_matrix({2}_in + {3}));\n  }};\n",
      product_threads, f.left, f.right,
      f.right_is_transposed ? "(long long)first_column * TERMS + step * DEPTH, TERMS, COLUMNS, DEPTH"
                            : "(long long)step * DEPTH * WIDTH + first_column, WIDTH, DEPTH, COLUMNS");
  for (const auto& t : f.read)
    out.begin +=
        fmt::format("  const auto {} = [&](int row, int column) {{ return {}; }};\n", t.name,
                    loaded(t.type, t.is_one_per_row ? fmt::format("{}_in[{}]", t.name, t.row)
                                                    : fmt::format("{}_in[column{}]", t.name, row_offset(t, "WIDTH"))));
  const auto& y = f.written.front().name;
  out.begin += fmt::format(
      "  const auto {0}_at = [&](int row, int column) {{ return {0}_out + (long long)row * WIDTH + column; }};\n"
      "  float sums[ROWS / 32][COLUMNS / 32][4] = {{}};\n",
      y);
  out.end = "}\n";
  return out;
}

}  // namespace cudal1
