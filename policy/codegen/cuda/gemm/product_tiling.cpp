#include "policy/codegen/cuda/gemm/product_tiling.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <tuple>

#include "policy/codegen/cuda/cuda_kernels.hpp"
#include "policy/codegen/cuda/cuda_layout.hpp"
#include "policy/codegen/cuda/gemm/mainloop.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_parts_bytes = int64_t{1} << 30;
constexpr int64_t k_lane_bytes = 16;  // that a lane reads of a row of an operand at once

int64_t rounded_up(int64_t n, int64_t to) {
  return (n + to - 1) / to * to;
}

// The side of these operands, which lie in memory in the same way.
product_side side_of(const kernel_body& body, const matrix_product& of, std::span<const int> operands,
                     std::vector<int> dims, const std::vector<int>& batch) {
  product_side out;
  out.access = operands.front();
  out.dims = std::move(dims);
  const body_access& o = body.accesses[static_cast<std::size_t>(out.access)];
  const int64_t step = out.step = o.stride(of.axis);
  const bool aligned =
      std::ranges::all_of(operands, [&](int n) { return body.accesses[static_cast<std::size_t>(n)].aligned; });
  const auto stride = [&](int d) { return o.strides[static_cast<std::size_t>(d)]; };
  for (const int d : out.dims)
    out.size *= body.extent(static_cast<std::size_t>(d));
  const int64_t wide = 16 / size_of(o.type.type), narrow = 4 / size_of(o.type.type);
  const auto in_vectors = [&](int64_t n) { return n % out.width == 0; };
  const auto all_in_vectors = [&](int but) {
    return aligned && in_vectors(o.gather_stride) &&
           std::ranges::all_of(out.dims, [&](int d) { return d == but || in_vectors(stride(d)); }) &&
           std::ranges::all_of(batch, [&](int d) { return in_vectors(stride(d)); });
  };
  const int inner = out.dims.empty() ? -1 : out.dims.back();
  out.is_k_major = step == 1 || inner < 0 || stride(inner) != 1;
  for (const int64_t width : {wide, narrow}) {
    out.width = width;
    if (width == 1) break;
    if (out.is_k_major && step == 1 && in_vectors(of.k) && all_in_vectors(-1)) break;
    if (!out.is_k_major && in_vectors(step) && in_vectors(body.extent(static_cast<std::size_t>(inner))) &&
        all_in_vectors(inner))
      break;
    out.width = 0;
  }
  return out;
}

void finish(product_tiling& t, int64_t parts) {
  t.loop->divide(t, parts);
  set_parts(t, parts);
  t.blocks = t.batches * t.parts * t.row_tiles() * t.column_tiles();
}

// Clock cycles on a large GPU, roughly: only their order matters. Fitted to measurements on an H100 (tiles) and an
// H200.
constexpr double k_first = 3000;  // of the first kernel: until elements are there, and from the last of them to results
constexpr double k_cluster = 2200;     // of a cluster and two of its barriers
constexpr double k_cluster_bytes = 8;  // a cycle, from the blocks of a cluster to one
constexpr double k_row_element = 100;  // of an element of the rows that a thread computes

// How many blocks of clusters run at the same time where each takes a processor (H200): a cluster lies in a part of the
// GPU with 16 or 18 processors.
int64_t blocks_of_clusters(int64_t blocks) {
  constexpr std::array<int64_t, 9> k_at_once{0, 132, 132, 117, 120, 110, 102, 105, 120};
  return k_at_once[static_cast<std::size_t>(blocks)];
}

double estimated_cycles(const kernel_body& body, const product_tiling& t) {
  const product_work work = work_of(t);
  const double on_one =
      std::ceil(static_cast<double>(t.blocks) / static_cast<double>(blocks_of_clusters(t.row_blocks)));
  double out = k_first + work.cycles(on_one);
  if (t.loop->cycles_ahead != nullptr) out += t.loop->cycles_ahead(body, t);
  if (t.has_row_epilogue)
    out += on_one * k_row_element * static_cast<double>(t.rows * t.own_columns()) / static_cast<double>(32 * t.warps());
  if (t.shares_rows())
    out += k_cluster + on_one * static_cast<double>(bytes_of_rows(t) - place_of_shared_rows(t)) / k_cluster_bytes;
  if (!is_one_kernel(body, t))
    out += t.loop->cycles_of_next_kernel +
           static_cast<double>(8 * t.parts * t.batches * t.a.size * t.b.size) / (20 * large_gpu_processors);
  return out;
}

}  // namespace

void set_parts(product_tiling& t, int64_t parts) {
  t.part_k = rounded_up((t.k + parts - 1) / parts, t.stage_k);
  t.parts = (t.k + t.part_k - 1) / t.part_k;
}

product_work work_of(const product_tiling& t) {
  return t.loop->work(t);
}

int64_t bytes_of_stages(const product_tiling& t) {
  return t.loop->bytes_of_stages == nullptr ? 0 : t.loop->bytes_of_stages(t);
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
  return place_of_shared_rows(t) + (t.shares_rows() ? 4 * t.products * t.rows_of_block() * t.b.size : 0);
}

int64_t bytes_of_shared_memory(const product_tiling& t) {
  return t.has_row_epilogue ? bytes_of_rows(t) : bytes_of_stages(t);
}

tile::layout layout_of(const product_tiling& t, const product_side& side, int64_t rows) {
  // Warpgroups read lines of 128 bytes: where these are of columns of B, strips of them follow each other.
  if (t.loop->swizzled) return {rows, t.stage_k, t.stage_k, true};
  // The lanes of a warp then read each of the 32 banks once, or the rows of a matrix do.
  if (side.is_k_major) return {rows, t.stage_k, t.stage_k + 16 / size_of(t.type)};
  return {t.stage_k, rows, rows + 8};
}

namespace {

struct timed_tiling {
  product_tiling how;
  double cycles = 0;
};

// errc::unsupported with the reason where the main loop cannot make A.
expected<void> check_a(const kernel_body& body, const product_tiling& t) {
  const matrix_product& p = t.of;
  const auto operand = [&](int n) -> const body_access& { return body.accesses[static_cast<std::size_t>(n)]; };
  if (operand(p.a).type.type != t.type)
    return fail(errc::unsupported, "{} is {}, and the product's other operand is {}", operand(p.a).value,
                name_of(operand(p.a).type.type), name_of(t.type));
  if (p.inner_k > 0 && !t.loop->prologue_products)
    return fail(errc::unsupported, "A is made of another product, which only by=threads can multiply");
  if (p.inner_k > t.loop->most_k)
    return fail(errc::unsupported, "without tensor cores k is at most {}, and the product in front has {}",
                t.loop->most_k, p.inner_k);
  if (p.a_nodes.empty() || t.loop->prologue == a_prologue::any) return {};
  if (t.loop->prologue == a_prologue::none)
    return fail(errc::unsupported, "{}={} multiplies A as it is in memory, and here the kernel computes it",
                t.loop->parameter, t.loop->value);
  for (const int number : p.a_nodes) {
    const body_node& n = body.nodes[static_cast<std::size_t>(number)];
    if (n.kind != node_kind::load || n.access == p.a) continue;
    const auto& strides = operand(n.access).strides;
    if (operand(n.access).stride(p.axis) != 0 &&
        std::any_of(strides.begin(), strides.begin() + body.dims(), [](int64_t s) { return s != 0; }))
      return fail(errc::unsupported,
                  "both {} and {} have an element for each of A's, and this kernel reads only one such tensor",
                  operand(n.access).value, operand(p.a).value);
  }
  return {};
}

// errc::unsupported with the reason where the main loop cannot make a product of these operands.
expected<void> check_operands(const kernel_body& body, const product_tiling& t) {
  const mainloop& loop = *t.loop;
  if (loop.check_types != nullptr) CUDAL1_CHECK(loop.check_types(t.type));
  if (t.k > loop.most_k)
    return fail(errc::unsupported, "without tensor cores k is at most {}, and it is {}", loop.most_k, t.k);
  if (!std::has_single_bit(static_cast<uint64_t>(t.products)))
    return fail(errc::unsupported, "a kernel computes one, two or four products, not {}", t.products);
  CUDAL1_CHECK(check_a(body, t));
  for (const auto* side : {&t.a, &t.b}) {
    const body_access& o = body.accesses[static_cast<std::size_t>(side->access)];
    if (side->width == 0 && loop.copies)
      return fail(errc::unsupported, "{} is {}, whose elements cannot be copied in pairs", o.value, o.type.text());
    const bool in_vectors = side->width * size_of(t.type) == k_lane_bytes;
    if (loop.strips && side == &t.b && !side->is_k_major && in_vectors) continue;
    if (loop.k_in_vectors && (!side->is_k_major || side->step != 1 || !in_vectors))
      return fail(errc::unsupported, "{} is not contiguous along k in vectors of {} bytes", o.value, k_lane_bytes);
    if (o.type.storage_bytes() / size_of(t.type) > std::numeric_limits<int>::max())
      return fail(errc::unsupported, "{} is too large for 32-bit indices", o.value);
  }
  return {};
}

// Whether each row of the body lies in one tile, or in those of a cluster, so that a block can compute it.
bool holds_rows(const kernel_body& body, const product_tiling& t) {
  if (t.parts > 1 || body.is_elementwise() || body.has_scan()) return false;
  // The body's columns are the last of B's axes, in their order.
  const int in_row = body.dims() - body.row_dims();
  if (std::ssize(t.b.dims) < in_row || t.b.dims[t.b.dims.size() - static_cast<std::size_t>(in_row)] != body.row_dims())
    return false;
  const int64_t columns = body.columns();
  if (t.shares_rows()) return t.b.size == columns;
  return t.b.size == columns ? columns <= t.own_columns() : t.own_columns() % columns == 0;
}

// Lets the kernel compute a row epilogue where it can and that pays, with as many stages as shared memory has room for
// besides them. It does not pay for tiles of warpgroups: few threads compute them, while nothing is multiplied (16,384
// x 256 of bfloat16, a layer norm: 27.0 us on an H200, 24.7 in two kernels). False where the options ask for clusters
// and there can be none.
bool compute_rows(const kernel_body& body, const kernel_options& options, product_tiling& t) {
  const bool clusters = options[kernel_tunable::clusters] != 0;
  constexpr int64_t k_most_blocks = 8, k_fewest_stages = 3;
  product_tiling made = t;
  made.row_blocks = clusters ? t.column_tiles() : 1;
  const bool pays = clusters ? made.shares_rows() && made.row_blocks <= k_most_blocks : t.loop->row_epilogue_pays;
  if (!pays || !holds_rows(body, made) || (clusters && !t.loop->clusters)) return !clusters;
  made.has_row_epilogue = true;
  while (bytes_of_rows(made) > shared_bytes_of_processor && made.stages > k_fewest_stages)
    --made.stages;
  if (bytes_of_rows(made) > shared_bytes_of_processor) return !clusters;
  t = std::move(made);
  return true;
}

// Several products are one kernel with their epilogue. A fragment is of one of them.
bool fits_products(const kernel_body& body, const product_tiling& t) {
  constexpr int64_t k_fragment_columns = 8;
  if (t.products == 1) return true;
  const int64_t together = t.loop->shares_of_warps ? t.warp_own_columns() : t.own_columns();
  return together >= k_fragment_columns && is_one_kernel(body, t);
}

// `reason`: why no tiling could be, if it is one of the main loop's own.
tl::unexpected<error> why_no_tiling(const product_tiling& t, const kernel_options& options, const std::string& reason) {
  const int64_t rows = options[kernel_tunable::tile_rows], columns = options[kernel_tunable::tile_columns],
                parts = options[kernel_tunable::depth_parts];
  if (options[kernel_tunable::clusters] != 0)
    return fail(errc::unsupported, "no cluster's tiles hold the rows that follow the product");
  if (!reason.empty()) return fail(errc::unsupported, "{}", reason);
  if (t.products > 1 && rows == 0 && columns == 0)
    return fail(errc::unsupported, "no tile holds the epilogue of the {} products", t.products);
  const bool has_tile = std::ranges::any_of(product_tile_rows, [&](int64_t r) {
    return (rows == 0 || r == rows) && std::ranges::any_of(product_tile_columns, [&](int64_t c) {
             return (columns == 0 || c == columns) && t.loop->is_tile(r, c);
           });
  });
  if (!has_tile) return fail(errc::unsupported, "{}", t.loop->tiles());
  return fail(errc::unsupported, "k = {} cannot be split into {} parts", t.k,
              parts > 0 ? std::to_string(parts) : "several");
}

// Whether A differs along the axis.
bool varies_in_a(const kernel_body& body, const matrix_product& of, std::size_t dimension) {
  return std::ranges::any_of(of.accesses_of_a(body), [&](int operand) {
    return body.accesses[static_cast<std::size_t>(operand)].strides[dimension] != 0;
  });
}

// The product and its sides, not divided yet.
expected<product_tiling> undivided(const kernel_body& body, const mainloop& loop) {
  product_tiling t;
  CUDAL1_TRY(t.of, matrix_product_of(body));
  const matrix_product& p = t.of;
  std::vector<int> a_dims, b_dims;
  for (std::size_t d = 0; d < static_cast<std::size_t>(body.dims()); ++d) {
    const bool in_a = varies_in_a(body, p, d);
    const bool in_b = body.accesses[static_cast<std::size_t>(p.bs.front())].strides[d] != 0;
    if (!in_a && !in_b)
      return fail(errc::unsupported, "the product would be computed again along a dimension of the kernel");
    if (in_a && in_b) t.batches *= body.extent(d);
    (in_a && in_b ? t.batch : in_a ? a_dims : b_dims).push_back(static_cast<int>(d));
  }
  t.type = body.accesses[static_cast<std::size_t>(p.bs.front())].type.type;
  t.loop = &loop;
  t.products = std::ssize(p.bs);
  t.a = side_of(body, p, std::span(&p.a, 1), std::move(a_dims), t.batch);
  t.b = side_of(body, p, p.bs, std::move(b_dims), t.batch);
  t.k = p.k;
  t.inner_k = p.inner_k;
  CUDAL1_CHECK(check_operands(body, t));
  return t;
}

expected<timed_tiling> fastest(const kernel_body& body, const mainloop& loop, const kernel_options& options) {
  CUDAL1_TRY(const product_tiling t, undivided(body, loop));
  const int64_t result_bytes = 4 * t.batches * t.a.size * t.b.size;
  const int64_t wanted_rows = options[kernel_tunable::tile_rows],
                wanted_columns = options[kernel_tunable::tile_columns],
                wanted_parts = options[kernel_tunable::depth_parts];
  std::optional<timed_tiling> best;
  std::string reason;
  bool any_may_be = false;
  for (const int64_t rows : product_tile_rows) {
    if (wanted_rows > 0 && rows != wanted_rows) continue;
    for (const int64_t columns : product_tile_columns) {
      if (wanted_columns > 0 && columns != wanted_columns) continue;
      if (!loop.is_tile(rows, columns)) continue;
      for (const int64_t parts : product_k_parts) {
        if (wanted_parts > 0 && parts != wanted_parts) continue;
        if (parts > 1 && !loop.splits_k) continue;
        timed_tiling each{t};
        each.how.rows = rows;
        each.how.columns = columns;
        finish(each.how, parts);
        if (const auto why = loop.why_not == nullptr ? "" : loop.why_not(each.how); !why.empty()) {
          reason = why;
          continue;
        }
        any_may_be = true;
        if (each.how.parts != parts || (parts > 1 && parts * result_bytes > k_most_parts_bytes)) continue;
        if (!compute_rows(body, options, each.how) || !fits_products(body, each.how)) continue;
        each.cycles = estimated_cycles(body, each.how);
        if (!best || each.cycles < best->cycles) best = std::move(each);
      }
    }
  }
  if (best) return std::move(*best);
  return why_no_tiling(t, options, any_may_be ? "" : reason);
}

}  // namespace

bool is_one_kernel(const kernel_body& body, const product_tiling& t) {
  return t.has_row_epilogue || (t.parts == 1 && body.is_elementwise() && !body.has_reduction());
}

expected<product_tiling> tiling_of(const kernel_body& body, const kernel_options& options) {
  const mainloop* const loop = find_mainloop(options.product_way);
  if (loop == nullptr) return fail(errc::unsupported, "there is no main loop \"{}\"", options.product_way);
  CUDAL1_TRY(timed_tiling best, fastest(body, *loop, options));
  return std::move(best.how);
}

namespace {

auto rows_columns_parts(const kernel_body& body, const kernel_options& options) {
  return tiling_of(body, options).map([](const product_tiling& t) { return std::tuple(t.rows, t.columns, t.parts); });
}

}  // namespace

std::span<const kernel_tunable> tunables_of_products() {
  static const std::array all{
      declared(kernel_tunable::tile_rows, product_tile_rows, changes<kernel_tunable::tile_rows, rows_columns_parts>),
      declared(kernel_tunable::tile_columns, product_tile_columns,
               changes<kernel_tunable::tile_columns, rows_columns_parts>),
      declared(kernel_tunable::depth_parts, product_k_parts, changes<kernel_tunable::depth_parts, rows_columns_parts>)};
  return all;
}

std::vector<product_choice> choices_by_estimate(const kernel_body& body) {
  // Far slower ones are not worth a measurement, and clusters only where they may well be the fastest.
  constexpr double k_far = 2, k_near = 1.15;
  std::vector<std::pair<double, product_choice>> made;
  double least = std::numeric_limits<double>::infinity();
  for (const mainloop* loop : mainloops()) {
    for (const bool in_clusters : {false, true}) {
      if (in_clusters && body.is_elementwise()) continue;
      kernel_options options;
      options.choose(kernel_tunable::clusters, in_clusters ? 1 : 0);
      const auto tiling = fastest(body, *loop, options);
      if (!tiling) continue;
      made.push_back({tiling->cycles, {loop->parameter, loop->value, in_clusters}});
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
