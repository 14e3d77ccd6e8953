#include "policy/codegen/cuda/product_tiling.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

#include "policy/codegen/cuda/cuda_layout.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_stage_bytes = int64_t{96} << 10;  // of all stages: two blocks fit on a processor
constexpr int64_t k_warp_bytes = 128;                 // of a row of an operand, that a warp takes of a stage
constexpr int64_t k_least_stages = 3, k_most_stages = 6;
constexpr int64_t k_alone_bytes = 2 * k_stage_bytes;    // of the largest scaled halves, whose sums fill the registers
constexpr int64_t k_halves_depth = 32;                  // terms of a stage of scaled halves
constexpr int64_t k_least_warpgroup_tile = 64;          // rows and columns
constexpr int64_t k_warpgroup_row = 128;                // bytes of a row of a tile in shared memory
constexpr int64_t k_shared_bytes = int64_t{224} << 10;  // of a multiprocessor
constexpr int64_t k_most_halves_bytes = int64_t{4} << 30;
constexpr int64_t k_most_parts_bytes = int64_t{1} << 30;
constexpr int64_t k_lane_bytes = 16;  // that a lane reads of a row of an operand at once
constexpr int64_t k_least_tile_columns = 32, k_most_tile_columns = 128;  // of tiles in shared memory
constexpr int64_t k_most_warps_tile = 32;  // rows and columns of a tile whose depth the warps share
constexpr int64_t k_most_terms_of_thread = 64;
constexpr int64_t k_most_elements = 4096, k_most_threads = 512;  // of a tile whose sums threads add up

int64_t rounded_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// Of these operands, which lie in memory in the same way.
product_side side_of(const kernel_body& body, std::span<const int> operands, std::vector<int> dims,
                     const std::vector<int>& batch) {
  product_side out;
  out.operand = operands.front();
  out.dims = std::move(dims);
  const body_operand& o = body.operands[static_cast<std::size_t>(out.operand)];
  const int64_t step = out.step = o.step;
  const bool aligned =
      std::ranges::all_of(operands, [&](int n) { return body.operands[static_cast<std::size_t>(n)].aligned; });
  const auto stride = [&](int d) { return o.strides[static_cast<std::size_t>(d)]; };
  for (const int d : out.dims)
    out.size *= body.domain[static_cast<std::size_t>(d)];
  const int64_t wide = 16 / size_of(o.type.type), narrow = 4 / size_of(o.type.type);
  const auto in_vectors = [&](int64_t n) { return n % out.width == 0; };
  const auto all_in_vectors = [&](int but) {
    return aligned && in_vectors(o.lookup_stride) &&
           std::ranges::all_of(out.dims, [&](int d) { return d == but || in_vectors(stride(d)); }) &&
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
  t.stage_depth = k_warp_bytes / size_of(t.type) * t.slices;
  const int64_t stage = size_of(t.type) * (tile_elements(t, t.left, t.rows) + tile_elements(t, t.right, t.columns));
  t.stages = std::clamp(k_stage_bytes / stage, k_least_stages, k_most_stages);
}

// A warpgroup has 64 rows of the tile, of which each of its warps holds 16. Of factors as they are, two blocks share a
// processor where there are so many blocks, and tiles have up to 128 columns.
void divide_among_warpgroups(product_tiling& t, int64_t parts) {
  t.warp_rows = 16;
  t.warp_columns = t.columns;
  t.slices = 1;
  const int64_t stage = (t.rows + t.columns) * k_warpgroup_row;
  if (t.form == product_form::scaled_halves) {
    t.stage_depth = k_halves_depth;
    t.stages = (t.rows * t.columns == 128 * 128 ? k_alone_bytes : k_stage_bytes) / stage;
    return;
  }
  t.stage_depth = k_warpgroup_row / size_of(t.type);
  const bool shared =
      t.columns <= k_most_tile_columns && t.batches * t.row_tiles() * t.column_tiles() * parts > large_gpu_processors;
  t.stages = std::min((shared ? k_stage_bytes : k_shared_bytes) / stage, k_most_stages);
}

// Each warp has 16 rows and all columns of the tile. Few blocks have more warps each: what is on its way to registers
// is what hides the time that memory takes.
void divide_depth_among_warps(product_tiling& t) {
  t.warp_rows = 16;
  t.warp_columns = t.columns;
  t.stage_depth = 4 * k_lane_bytes / size_of(t.type);  // four lanes read neighbouring terms of a row
  const int64_t blocks = t.batches * t.row_tiles() * t.column_tiles();
  const int64_t warps = blocks <= large_gpu_processors ? 16 : 8;
  t.slices = std::clamp<int64_t>(t.stages_of(t.depth), 1, warps * t.warp_rows / t.rows);
  t.stages = t.columns < 32 ? 4 : 2;  // whose elements fit in the registers
}

// All terms are one stage. A warp's share of the tile is a number of its elements.
void divide_among_threads(product_tiling& t) {
  t.warp_rows = t.rows;
  t.warp_columns = 32 * t.columns / std::min(t.rows * t.own_columns(), k_most_threads);
  t.slices = 1;
  t.stage_depth = t.depth;
  t.stages = 1;
}

void finish(product_tiling& t, int64_t parts) {
  switch (t.form) {
    case product_form::scaled_halves:
    case product_form::warpgroup_tiles:
      divide_among_warpgroups(t, parts);
      break;
    case product_form::depth_of_warps:
      divide_depth_among_warps(t);
      break;
    case product_form::thread_sums:
      divide_among_threads(t);
      break;
    case product_form::tiles:
      divide_among_warps(t);
      break;
  }
  t.part_depth = rounded_up((t.depth + parts - 1) / parts, t.stage_depth);
  t.parts = (t.depth + t.part_depth - 1) / t.part_depth;
  // Memory that nothing uses would keep other blocks off the processor.
  if (t.form == product_form::tiles) t.stages = std::clamp<int64_t>(t.stages_of(t.part_depth), 2, t.stages);
  t.blocks = t.batches * t.parts * t.row_tiles() * t.column_tiles();
}

// Clock cycles on a large GPU, roughly: only their order matters. Fitted to measurements on an H100 (tiles) and an
// H200.
constexpr double k_first = 3000;    // of the first kernel, until elements are there, and from the last ones to results
constexpr double k_tiles = 1600;    // until tiles in shared memory are there, and for the results
constexpr double k_kernel = 2600;   // of each further kernel
constexpr double k_second = 3600;   // of one that begins when the slowest block has added up its warps' sums
constexpr double k_cluster = 2200;  // of a cluster and two of its barriers
constexpr double k_cluster_bytes = 8;  // a cycle, from the blocks of a cluster to one
constexpr double k_row_element = 100;  // of an element of the rows that a thread computes

// How many blocks of clusters run at the same time where each takes a processor (H200): a cluster lies in a part of the
// GPU with 16 or 18 processors.
int64_t blocks_of_clusters(int64_t blocks) {
  constexpr std::array<int64_t, 9> k_at_once{0, 132, 132, 117, 120, 110, 102, 105, 120};
  return k_at_once[static_cast<std::size_t>(blocks)];
}

// Of the halves of both operands, in whole tiles.
std::pair<int64_t, int64_t> halves_bytes(const product_tiling& t) {
  const int64_t row = 4 * t.stage_depth * t.stages_of(t.depth);
  return {t.padded_rows() * row, t.padded_columns() * row};
}

// What splits a product's operands into halves: 1,600 bytes a cycle from and to memory for all processors.
double cycles_of_splitting(const kernel_body& body, const product_tiling& t) {
  double out = 0;
  const auto [left_bytes, right_bytes] = halves_bytes(t);
  for (const auto& [side, bytes] : {std::pair{&t.left, left_bytes}, {&t.right, right_bytes}}) {
    const bool is_left = side == &t.left;
    const bool is_operand = !is_left || (body.product->left_made.empty() && body.product->left_rows < 0);
    if (is_operand && body.operands[static_cast<std::size_t>(side->operand)].constant) continue;
    // Read as floats, written as halves.
    out += static_cast<double>(is_left ? 1 : t.products) * (k_kernel + static_cast<double>(2 * bytes) / 1600);
  }
  return out;
}

double estimated_cycles(const kernel_body& body, const product_tiling& t) {
  const product_work work = work_of(t);
  const double on_one =
      std::ceil(static_cast<double>(t.blocks) / static_cast<double>(blocks_of_clusters(t.row_blocks)));
  double out = k_first + work.cycles(on_one);
  if (t.form == product_form::scaled_halves) out += cycles_of_splitting(body, t);
  if (t.by_rows)
    out += on_one * k_row_element * static_cast<double>(t.rows * t.own_columns()) / static_cast<double>(32 * t.warps());
  if (t.shares_rows())
    out += k_cluster + on_one * static_cast<double>(bytes_of_rows(t) - place_of_shared_rows(t)) / k_cluster_bytes;
  if (!is_one_kernel(body, t))
    out += (t.form == product_form::depth_of_warps ? k_second : k_kernel) +
           static_cast<double>(8 * t.parts * t.batches * t.left.size * t.right.size) / (20 * large_gpu_processors);
  return out;
}

}  // namespace

// Tensor cores do 420 multiplications of TF32 a cycle for large tiles, and 20 bytes come from the second-level cache; a
// product of float32 has three of TF32, those of half types take half as long. Of scaled halves: 480 multiplications of
// float32 for tiles of 64 by 128, and 48 bytes. Warps that read from memory get 26 bytes. Warpgroups do 1,760
// multiplications of half types, and their tiles come at 36 bytes, 42 of two blocks.
product_work work_of(const product_tiling& t) {
  const auto stages = static_cast<double>(t.part_depth) / static_cast<double>(t.stage_depth);
  const auto tile = static_cast<double>(t.rows * t.columns), sides = static_cast<double>(t.rows + t.columns);
  const auto terms = static_cast<double>(t.stage_depth), size = static_cast<double>(size_of(t.type));
  const double multiplications = is_half(t.type) ? 0.5 : 3;  // of TF32, in time
  switch (t.form) {
    case product_form::scaled_halves: {
      const double rate = t.columns < 128 ? 410 : t.rows < 128 ? 480 : 450;
      return {k_tiles, stages, 450, tile * terms / rate, sides * 4 * terms / 48};
    }
    case product_form::depth_of_warps: {
      const auto depth = static_cast<double>(t.depth);
      return {0, 1, 0, multiplications * tile * depth / (420 * 0.8), size * sides * depth / 26};
    }
    case product_form::thread_sums: {
      // Of the first-level cache, a line a cycle: one of the left factor, and those that 32 columns are in.
      const double columns = std::min<double>(32, t.right.step == 1 ? std::ceil(terms * size / 4) : 32 * size / 128);
      const double inner = static_cast<double>(t.rows * t.depth * t.inner_depth) / 32 * 9;
      return {0, 1, 0, 0, tile / 32 * terms * (1 + columns) + inner};
    }
    case product_form::warpgroup_tiles:
      return {k_tiles, stages, 450, tile * terms / 1760, sides * size * terms / (blocks_on_processor(t) > 1 ? 42 : 36)};
    case product_form::tiles:
      break;
  }
  const double efficiency = tile >= 8192 ? 1 : tile >= 4096 ? 0.92 : 0.8;
  return {k_tiles, stages, 700, multiplications * tile * terms / (420 * efficiency), size * sides * terms / 20};
}

int64_t blocks_on_processor(const product_tiling& t) {
  return t.columns <= k_most_tile_columns && 2 * bytes_of_shared_memory(t) <= k_shared_bytes ? 2 : 1;
}

int64_t bytes_of_stages(const product_tiling& t) {
  if (t.form == product_form::depth_of_warps || t.form == product_form::thread_sums) return 0;
  const int64_t stages = std::min(t.stages, t.form == product_form::tiles ? t.stages_of(t.part_depth) : t.stages);
  if (t.form == product_form::scaled_halves) return stages * (t.rows + t.columns) * k_warpgroup_row;
  return stages * size_of(t.type) * (tile_elements(t, t.left, t.rows) + tile_elements(t, t.right, t.columns));
}

int64_t line_of_sums(const product_tiling& t) {
  return t.columns + 8;
}
int64_t bytes_of_sums(const product_tiling& t) {
  return 4 * t.slices * t.rows * line_of_sums(t);
}
int64_t place_of_shared_rows(const product_tiling& t) {
  return std::max(bytes_of_stages(t), bytes_of_sums(t));
}
int64_t bytes_of_rows(const product_tiling& t) {
  return place_of_shared_rows(t) + (t.shares_rows() ? 4 * t.products * t.rows_of_block() * t.right.size : 0);
}

int64_t bytes_of_shared_memory(const product_tiling& t) {
  return t.by_rows ? bytes_of_rows(t) : bytes_of_stages(t);
}

int64_t tile_line(const product_tiling& t, const product_side& side, int64_t rows) {
  if (t.form == product_form::warpgroup_tiles) return t.stage_depth;
  // Of the 32 banks, the lanes of a warp then read each once, or the rows of a matrix do.
  return side.along_depth ? t.stage_depth + 16 / size_of(t.type) : rows + 8;
}

int64_t tile_elements(const product_tiling& t, const product_side& side, int64_t rows) {
  if (t.form == product_form::warpgroup_tiles) return rows * t.stage_depth;
  return (side.along_depth ? rows : t.stage_depth) * tile_line(t, side, rows);
}

namespace {

struct timed_tiling {
  product_tiling how;
  double cycles = 0;
};

// errc::unsupported with the reason where the form cannot make the left factor.
expected<void> check_left(const kernel_body& body, const product_tiling& t) {
  const body_product& p = *body.product;
  const auto operand = [&](int n) -> const body_operand& { return body.operands[static_cast<std::size_t>(n)]; };
  if (operand(p.left).type.type != t.type)
    return fail(errc::unsupported, "{} is {}, and the product's other factor {}", operand(p.left).value,
                name_of(operand(p.left).type.type), name_of(t.type));
  if (p.inner_depth > 0 && t.form != product_form::thread_sums)
    return fail(errc::unsupported, "only threads multiply what another product of the kernel makes");
  if (p.inner_depth > k_most_terms_of_thread)
    return fail(errc::unsupported, "a thread adds up at most {} terms, and those of the product in front are {}",
                k_most_terms_of_thread, p.inner_depth);
  if (p.left_made.empty() || t.form == product_form::thread_sums || t.form == product_form::scaled_halves) return {};
  if (t.form == product_form::warpgroup_tiles)
    return fail(errc::unsupported, "warpgroups multiply factors as they are in memory");
  for (const auto& n : p.left_made) {
    if (n.kind != node_kind::load || n.operand == p.left) continue;
    const auto& strides = operand(n.operand).strides;
    if (operand(n.operand).step != 0 && std::ranges::any_of(strides, [](int64_t s) { return s != 0; }))
      return fail(errc::unsupported, "{} has an element for each of the product's factors, as {} has",
                  operand(n.operand).value, operand(p.left).value);
  }
  return {};
}

// errc::unsupported with the reason where the form cannot make a product of these operands.
expected<void> check_operands(const kernel_body& body, const product_tiling& t) {
  if (t.form == product_form::scaled_halves && t.type != dtype::float32)
    return fail(errc::unsupported, "factors of {} are not split into halves", name_of(t.type));
  if (t.form == product_form::warpgroup_tiles && !is_half(t.type))
    return fail(errc::unsupported, "warpgroups multiply half types, or scaled halves, not {}", name_of(t.type));
  if (t.form == product_form::thread_sums && t.depth > k_most_terms_of_thread)
    return fail(errc::unsupported, "a thread adds up at most {} terms, and these are {}", k_most_terms_of_thread,
                t.depth);
  if (!std::has_single_bit(static_cast<uint64_t>(t.products)))
    return fail(errc::unsupported, "a kernel computes one, two or four products, not {}", t.products);
  CUDAL1_CHECK(check_left(body, t));
  for (const auto* side : {&t.left, &t.right}) {
    const body_operand& o = body.operands[static_cast<std::size_t>(side->operand)];
    if (side->width == 0 && t.form != product_form::scaled_halves && t.form != product_form::thread_sums)
      return fail(errc::unsupported, "{} is {}, whose elements cannot be copied in pairs", o.value, o.type.text());
    const bool in_vectors = side->width * size_of(t.type) == k_lane_bytes;
    // A warpgroup's right factor may have its columns side by side.
    if (t.form == product_form::warpgroup_tiles && side == &t.right && !side->along_depth && in_vectors) continue;
    if ((t.form == product_form::depth_of_warps || t.form == product_form::warpgroup_tiles) &&
        (!side->along_depth || side->step != 1 || !in_vectors))
      return fail(errc::unsupported, "the terms of {} do not lie side by side in vectors of {} bytes", o.value,
                  k_lane_bytes);
    if (o.type.storage_bytes() / size_of(t.type) > std::numeric_limits<int>::max())
      return fail(errc::unsupported, "{} is too large for 32-bit indices", o.value);
  }
  return {};
}

// Whether each row of the body lies in one tile, or in those of a cluster, so that a block can compute it.
bool holds_rows(const kernel_body& body, const product_tiling& t) {
  if (t.parts > 1 || body.is_elementwise() || body.has_scan()) return false;
  // Its columns are the last dimensions of the right operand's, in their order.
  const int in_row = static_cast<int>(body.domain.size()) - body.row_dims;
  if (std::ssize(t.right.dims) < in_row ||
      t.right.dims[t.right.dims.size() - static_cast<std::size_t>(in_row)] != body.row_dims)
    return false;
  const int64_t columns = body.columns();
  if (t.shares_rows()) return t.right.size == columns;
  return t.right.size == columns ? columns <= t.own_columns() : t.own_columns() % columns == 0;
}

// Lets the kernel compute the rows that follow the product where it can and that pays, with as many stages as shared
// memory has room for beside them. Of warpgroups' tiles it does not pay: few threads compute them, while nothing is
// multiplied (16,384 x 256 of bfloat16, a layer norm: 27.0 us on an H200, 24.7 in two kernels). False where the options
// ask for clusters and there can be none.
bool compute_rows(const kernel_body& body, bool clusters, product_tiling& t) {
  constexpr int64_t k_most_blocks = 8, k_fewest_stages = 3;
  product_tiling made = t;
  made.row_blocks = clusters ? t.column_tiles() : 1;
  const bool pays = clusters ? made.shares_rows() && made.row_blocks <= k_most_blocks : !is_of_warpgroups(t.form);
  if (!pays || !holds_rows(body, made) || (clusters && t.form == product_form::thread_sums)) return !clusters;
  made.by_rows = true;
  while (bytes_of_rows(made) > k_shared_bytes && made.stages > k_fewest_stages)
    --made.stages;
  if (bytes_of_rows(made) > k_shared_bytes) return !clusters;
  t = std::move(made);
  return true;
}

// Several products are one kernel with what follows them. A fragment is of one of them.
bool fits_products(const kernel_body& body, const product_tiling& t) {
  constexpr int64_t k_fragment_columns = 8;
  if (t.products == 1) return true;
  const int64_t together = t.form == product_form::thread_sums ? t.own_columns() : t.warp_own_columns();
  // All threads copy a tile of a factor that is halves.
  const bool is_copied = t.form != product_form::scaled_halves || t.own_columns() % (4 * t.warps()) == 0;
  return together >= k_fragment_columns && is_copied && is_one_kernel(body, t);
}

bool is_tile_of(product_form form, int64_t rows, int64_t columns) {
  switch (form) {
    case product_form::tiles:
      return columns >= k_least_tile_columns && columns <= k_most_tile_columns;
    case product_form::depth_of_warps:
      return std::max(rows, columns) <= k_most_warps_tile;
    case product_form::thread_sums:
      return rows * columns <= k_most_elements;
    case product_form::scaled_halves:
      return std::min(rows, columns) >= k_least_warpgroup_tile && columns <= k_most_tile_columns;
    case product_form::warpgroup_tiles:
      // Four warps are too few to compute wider tiles of 64 rows.
      return std::min(rows, columns) >= k_least_warpgroup_tile &&
             (rows > k_least_warpgroup_tile || columns <= k_most_tile_columns);
  }
  return false;
}

std::string tiles_of(product_form form) {
  switch (form) {
    case product_form::scaled_halves:
      return fmt::format("tiles of scaled halves have {} to {} rows and columns", k_least_warpgroup_tile,
                         k_most_tile_columns);
    case product_form::warpgroup_tiles:
      return fmt::format("tiles of warpgroups have at least {} rows and columns, those of 64 rows at most {} columns",
                         k_least_warpgroup_tile, k_most_tile_columns);
    case product_form::depth_of_warps:
      return fmt::format("tiles whose depth the warps share have at most {} rows and columns, and one part",
                         k_most_warps_tile);
    case product_form::thread_sums:
      return fmt::format("tiles whose sums threads add up have at most {} elements, and one part", k_most_elements);
    case product_form::tiles:
      break;
  }
  return fmt::format("tiles in shared memory have {} to {} columns", k_least_tile_columns, k_most_tile_columns);
}

tl::unexpected<error> why_no_tiling(const product_tiling& t, const group_options& options, bool halves_too_large) {
  if (options.clusters) return fail(errc::unsupported, "no tiles of a cluster hold the rows that follow the product");
  if (halves_too_large)
    return fail(errc::unsupported, "the halves of an operand would take more than {} GiB", k_most_halves_bytes >> 30);
  const bool too_narrow_or_wide = options.tile_columns > 0 && (options.tile_columns < k_least_tile_columns ||
                                                               options.tile_columns > k_most_tile_columns);
  if (t.products > 1 && options.tile_rows == 0 && options.tile_columns == 0)
    return fail(errc::unsupported, "no tile holds what follows the {} products", t.products);
  if (t.form == product_form::tiles ? too_narrow_or_wide : options.tile_rows > 0 || options.tile_columns > 0)
    return fail(errc::unsupported, "{}", tiles_of(t.form));
  return fail(errc::unsupported, "the product's {} terms cannot be cut into {} parts", t.depth,
              options.depth_parts > 0 ? std::to_string(options.depth_parts) : "several");
}

// Whether the left factor differs along the domain's dimension.
bool varies_in_left(const kernel_body& body, std::size_t dimension) {
  return std::ranges::any_of(body.product->operands_of_left(), [&](int operand) {
    return body.operands[static_cast<std::size_t>(operand)].strides[dimension] != 0;
  });
}

// The product and its sides, not divided yet.
expected<product_tiling> undivided(const kernel_body& body, product_form form) {
  const body_product& p = *body.product;
  product_tiling t;
  std::vector<int> left, right;
  for (std::size_t d = 0; d < body.domain.size(); ++d) {
    const bool in_left = varies_in_left(body, d);
    const bool in_right = body.operands[static_cast<std::size_t>(p.rights.front())].strides[d] != 0;
    if (!in_left && !in_right)
      return fail(errc::unsupported, "the product would be computed again along a dimension of the kernel");
    if (in_left && in_right) t.batches *= body.domain[d];
    (in_left && in_right ? t.batch : in_left ? left : right).push_back(static_cast<int>(d));
  }
  t.type = body.operands[static_cast<std::size_t>(p.rights.front())].type.type;
  t.form = form;
  t.products = std::ssize(p.rights);
  t.left = side_of(body, std::span(&p.left, 1), std::move(left), t.batch);
  t.right = side_of(body, p.rights, std::move(right), t.batch);
  t.depth = p.depth;
  t.inner_depth = p.inner_depth;
  CUDAL1_CHECK(check_operands(body, t));
  return t;
}

expected<timed_tiling> fastest(const kernel_body& body, const group_options& options) {
  CUDAL1_TRY(const product_tiling t, undivided(body, options.form));
  const int64_t result_bytes = 4 * t.batches * t.left.size * t.right.size;
  std::optional<timed_tiling> best;
  bool is_too_large = false;
  for (const int64_t rows : product_tile_rows) {
    if (options.tile_rows > 0 && rows != options.tile_rows) continue;
    for (const int64_t columns : product_tile_columns) {
      if (options.tile_columns > 0 && columns != options.tile_columns) continue;
      if (!is_tile_of(t.form, rows, columns)) continue;
      for (const int64_t parts : product_depth_parts) {
        if (options.depth_parts > 0 && parts != options.depth_parts) continue;
        if (parts > 1 && (t.form == product_form::depth_of_warps || t.form == product_form::thread_sums)) continue;
        timed_tiling each{t};
        each.how.rows = rows;
        each.how.columns = columns;
        // Threads share a line of a tile of 192 columns unevenly.
        if (t.form == product_form::warpgroup_tiles && !t.right.along_depth && columns == 192) continue;
        finish(each.how, parts);
        const auto [left_bytes, right_bytes] = halves_bytes(each.how);
        if (t.form == product_form::scaled_halves && std::max(left_bytes, right_bytes) > k_most_halves_bytes) {
          is_too_large = true;
          continue;
        }
        if (each.how.parts != parts || (parts > 1 && parts * result_bytes > k_most_parts_bytes)) continue;
        if (!compute_rows(body, options.clusters, each.how) || !fits_products(body, each.how)) continue;
        each.cycles = estimated_cycles(body, each.how);
        if (!best || each.cycles < best->cycles) best = std::move(each);
      }
    }
  }
  if (best) return std::move(*best);
  return why_no_tiling(t, options, is_too_large);
}

}  // namespace

bool is_one_kernel(const kernel_body& body, const product_tiling& t) {
  return t.by_rows || (t.parts == 1 && body.is_elementwise() && !body.has_reduction());
}

expected<product_tiling> tiling_of(const kernel_body& body, const group_options& options) {
  CUDAL1_TRY(timed_tiling best, fastest(body, options));
  return std::move(best.how);
}

std::vector<product_choice> choices_by_estimate(const kernel_body& body) {
  // Far slower ones are not worth a measurement, and clusters only where they may well be the fastest.
  constexpr double k_far = 2, k_near = 1.15;
  std::vector<std::pair<double, product_choice>> made;
  double least = std::numeric_limits<double>::infinity();
  for (const auto form : {product_form::tiles, product_form::depth_of_warps, product_form::scaled_halves,
                          product_form::warpgroup_tiles, product_form::thread_sums}) {
    for (const bool clusters : {false, true}) {
      if (clusters && body.is_elementwise()) continue;
      group_options options;
      options.form = form;
      options.clusters = clusters;
      const auto tiling = fastest(body, options);
      if (!tiling) continue;
      made.push_back({tiling->cycles, {form, clusters}});
      least = std::min(least, tiling->cycles);
    }
  }
  std::ranges::stable_sort(made, std::less<>(), &std::pair<double, product_choice>::first);
  std::vector<product_choice> out;
  for (const auto& [cycles, choice] : made)
    if (cycles < (choice.clusters ? k_near : k_far) * least || choice == product_choice()) out.push_back(choice);
  return out;
}

}  // namespace cudal1
