#include "policy/codegen/cuda/product_tiling.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace cudal1 {

namespace {

constexpr int64_t k_processors = 132;                 // of a large GPU
constexpr int64_t k_stage_bytes = int64_t{96} << 10;  // of all stages: two blocks fit on a processor
constexpr int64_t k_warp_bytes = 128;                 // of a row of an operand, that a warp takes of a stage
constexpr int64_t k_least_stages = 3, k_most_stages = 6;
constexpr int64_t k_most_parts_bytes = int64_t{1} << 30;

int64_t rounded_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

product_side side_of(const kernel_body& body, int operand, int64_t step, std::vector<int> dims,
                     const std::vector<int>& batch) {
  product_side out;
  out.operand = operand;
  out.dims = std::move(dims);
  out.step = step;
  const body_operand& o = body.operands[static_cast<std::size_t>(operand)];
  const auto stride = [&](int d) { return o.strides[static_cast<std::size_t>(d)]; };
  for (const int d : out.dims)
    out.size *= body.domain[static_cast<std::size_t>(d)];
  const int64_t wide = 16 / size_of(o.type.type), narrow = 4 / size_of(o.type.type);
  const auto in_vectors = [&](int64_t n) { return n % out.width == 0; };
  const auto all_in_vectors = [&](int but) {
    return o.aligned && std::ranges::all_of(out.dims, [&](int d) { return d == but || in_vectors(stride(d)); }) &&
           std::ranges::all_of(batch, [&](int d) { return in_vectors(stride(d)); });
  };
  const int inner = out.dims.empty() ? -1 : out.dims.back();
  out.along_depth = step == 1 || inner < 0 || stride(inner) != 1;
  for (const int64_t width : {wide, narrow}) {
    out.width = width;
    if (width == 1) break;
    if (out.along_depth && step == 1 && in_vectors(body.product->depth) && all_in_vectors(-1)) break;
    if (!out.along_depth && in_vectors(step) && in_vectors(body.domain[static_cast<std::size_t>(inner)]) &&
        all_in_vectors(inner))
      break;
    out.width = 0;
  }
  return out;
}

// Shares of 32 by 32, or 64 by 32 of the largest tiles: enough sums that do not wait for each other. At least four
// warps.
void divide_among_warps(product_tiling& t) {
  t.warp_rows = std::min<int64_t>(t.rows, t.rows * t.columns >= 16384 ? 64 : 32);
  t.warp_columns = 32;
  t.slices = 1;
  while (t.warps() < 4)
    t.slices *= 2;
}

void finish(product_tiling& t, int64_t parts) {
  divide_among_warps(t);
  t.stage_depth = k_warp_bytes / size_of(t.type) * t.slices;
  t.part_depth = rounded_up((t.depth + parts - 1) / parts, t.stage_depth);
  t.parts = (t.depth + t.part_depth - 1) / t.part_depth;
  const int64_t stage = size_of(t.type) * (tile_elements(t, t.left, t.rows) + tile_elements(t, t.right, t.columns));
  t.stages = std::clamp(k_stage_bytes / stage, k_least_stages, k_most_stages);
  t.blocks = t.batches * t.parts * ((t.left.size + t.rows - 1) / t.rows) * ((t.right.size + t.columns - 1) / t.columns);
}

// Clock cycles on a large GPU, roughly: only their order matters. Fitted to measurements on an H100, where tensor cores
// do 420 multiplications of TF32 a cycle for large tiles, and 20 bytes come from the second-level cache; a product of
// float32 has three of TF32, those of half types take half as long.
double estimated_cycles(const product_tiling& t, bool one_kernel) {
  constexpr double k_latency = 700;  // of a stage, where nothing else is to do
  constexpr double k_start = 4600, k_kernel = 2600;
  const int64_t tile = t.rows * t.columns;
  const double efficiency = tile >= 8192 ? 1 : tile >= 4096 ? 0.92 : 0.8;
  const double on_one = std::ceil(static_cast<double>(t.blocks) / k_processors);
  const double stages = static_cast<double>(t.part_depth) / static_cast<double>(t.stage_depth);
  const double multiplications = is_half(t.type) ? 0.5 : 3;  // of TF32, in time
  const double arithmetic = multiplications * static_cast<double>(tile * t.stage_depth) / (420 * efficiency);
  const double traffic = static_cast<double>(size_of(t.type) * (t.rows + t.columns) * t.stage_depth) / 20;
  double out = k_start + stages * std::max(k_latency + arithmetic, on_one * std::max(arithmetic, traffic));
  if (t.parts > 1 || !one_kernel) {
    const double sums = static_cast<double>(8 * t.parts * t.batches * t.left.size * t.right.size);
    out += k_kernel + sums / (20 * k_processors);
  }
  return out;
}

}  // namespace

int64_t tile_line(const product_tiling& t, const product_side& side, int64_t rows) {
  // Of the 32 banks, the lanes of a warp then read each once, or the rows of a matrix do.
  return side.along_depth ? t.stage_depth + 16 / size_of(t.type) : rows + 8;
}

int64_t tile_elements(const product_tiling& t, const product_side& side, int64_t rows) {
  return (side.along_depth ? rows : t.stage_depth) * tile_line(t, side, rows);
}

expected<product_tiling> tiling_of(const kernel_body& body, const group_options& options) {
  const body_product& p = *body.product;
  product_tiling t;
  std::vector<int> left, right;
  for (std::size_t d = 0; d < body.domain.size(); ++d) {
    const bool in_left = body.operands[static_cast<std::size_t>(p.left)].strides[d] != 0;
    const bool in_right = body.operands[static_cast<std::size_t>(p.right)].strides[d] != 0;
    if (!in_left && !in_right)
      return fail(errc::unsupported, "the product would be computed again along a dimension of the kernel");
    if (in_left && in_right) t.batches *= body.domain[d];
    (in_left && in_right ? t.batch : in_left ? left : right).push_back(static_cast<int>(d));
  }
  t.type = body.operands[static_cast<std::size_t>(p.left)].type.type;
  t.left = side_of(body, p.left, p.left_step, std::move(left), t.batch);
  t.right = side_of(body, p.right, p.right_step, std::move(right), t.batch);
  for (const auto* side : {&t.left, &t.right}) {
    const body_operand& o = body.operands[static_cast<std::size_t>(side->operand)];
    if (side->width == 0)
      return fail(errc::unsupported, "{} is {}, whose elements cannot be copied in pairs", o.value, o.type.text());
    if (o.type.storage_bytes() / size_of(t.type) > std::numeric_limits<int>::max())
      return fail(errc::unsupported, "{} is too large for 32-bit indices", o.value);
  }
  t.depth = p.depth;
  const bool one_kernel = body.is_elementwise() && !body.has_reduction();
  const int64_t result_bytes = 4 * t.batches * t.left.size * t.right.size;
  std::optional<product_tiling> best;
  double least = 0;
  for (const int64_t rows : product_tile_rows) {
    if (options.tile_rows > 0 && rows != options.tile_rows) continue;
    for (const int64_t columns : product_tile_columns) {
      if (options.tile_columns > 0 && columns != options.tile_columns) continue;
      for (const int64_t parts : product_depth_parts) {
        if (options.depth_parts > 0 && parts != options.depth_parts) continue;
        product_tiling each = t;
        each.rows = rows;
        each.columns = columns;
        finish(each, parts);
        if (each.parts != parts || (parts > 1 && parts * result_bytes > k_most_parts_bytes)) continue;
        const double cycles = estimated_cycles(each, one_kernel);
        if (best && cycles >= least) continue;
        best = std::move(each);
        least = cycles;
      }
    }
  }
  if (!best)
    return fail(errc::unsupported, "the product's {} terms cannot be cut into {} parts", t.depth,
                options.depth_parts > 0 ? std::to_string(options.depth_parts) : "several");
  return std::move(*best);
}

}  // namespace cudal1
