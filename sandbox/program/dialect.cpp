#include "sandbox/program/dialect.hpp"

#include <algorithm>
#include <set>

#include "sandbox/program/scanner.hpp"
#include "sandbox/program/source.hpp"

namespace cudal1 {

// Sentences consist of several literals.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
namespace {

// Tensor cores by a warp, and conversions of half types.
std::vector<dialect_part> warp_parts() {
  return {
      {.name = "half",
       .words = {"float_of_", "_of_float"},
       .of_threads = {"float_of_half", "float_of_bfloat16", "half_of_float", "bfloat16_of_float", "half_pair_of_floats",
                      "bfloat16_pair_of_floats"}},
      {.name = "tensor_cores",
       .words = {"mma_m16n8k", "load_matrix_x", "copy_async", "tf32_of_float", "tf32_even_of_float"},
       .of_warps = {"mma_m16n8k8_tf32", "mma_m16n8k16_half", "mma_m16n8k16_bfloat16", "load_matrix_x2",
                    "load_matrix_x4", "load_matrix_x2_transposed", "load_matrix_x4_transposed", "copy_async",
                    "copy_async_commit", "copy_async_wait"},
       .of_threads = {"tf32_of_float", "tf32_even_of_float"},
       .of_tiles = true,
       .guide = {"Tensor cores without headers, by a whole warp: `mma_m16n8k8_tf32(d, a, b)`, `mma_m16n8k16_half(d, "
                 "a, b)`, `mma_m16n8k16_bfloat16(d, a, b)`: d += a b with `float d[4]`, `unsigned a[4], b[2]`; "
                 "`tf32_of_float(v)` rounds an operand's bits (without it the low 13 bits are cut off).",
                 "Fragments of lane i, r = i / 4, c = i % 4: d is (r, 2c), (r, 2c + 1), (r + 8, 2c), (r + 8, 2c + "
                 "1). tf32: a is (r, c), (r + 8, c), (r, c + 4), (r + 8, c + 4), b is (k = c, n = r), (c + 4, r). "
                 "half and bfloat16, in pairs along k: a is (r, 2c), (r + 8, 2c), (r, 2c + 8), (r + 8, 2c + 8), b is "
                 "(2c, r), (2c + 8, r).",
                 "`load_matrix_x4(a, row)`, `load_matrix_x2(b, row)` (ldmatrix) read such fragments from shared "
                 "memory: lane i passes the address of row i % 8, of 16 bytes, of matrix i / 8. A tf32 tile `float "
                 "t[16][8]` as a: `&t[i % 16][i / 16 * 4]`; b kept as `float t[8 of n][8 of k]`: `&t[i % 8][i / 8 % "
                 "2 * 4]`; `_transposed` variants for 16-bit operands that lie the other way. Pad or swizzle rows "
                 "against bank conflicts.",
                 "`copy_async<16>(shared, global, real)` (4, 8 or 16 bytes, zeros where `!real`), "
                 "`copy_async_commit()`, `copy_async_wait<N>()` (until at most N groups of this thread are under "
                 "way; then `__syncthreads()`): for pipelines of 3 or 4 stages in shared memory."}}};
}

// What needs compute capability 9.0.
std::vector<dialect_part> hopper_parts() {
  return {
      {.name = "warpgroups",
       .words = {"warpgroup_mma_m64n", "warpgroup_fence", "warpgroup_commit", "warpgroup_wait"},
       .of_warps = {"warpgroup_fence",
                    "warpgroup_commit",
                    "warpgroup_wait",
                    "warpgroup_mma_m64n64k16_half",
                    "warpgroup_mma_m64n64k16_half_transposed",
                    "warpgroup_mma_m64n64k16_bfloat16",
                    "warpgroup_mma_m64n64k16_bfloat16_transposed",
                    "warpgroup_mma_m64n128k16_half",
                    "warpgroup_mma_m64n128k16_half_transposed",
                    "warpgroup_mma_m64n128k16_bfloat16",
                    "warpgroup_mma_m64n128k16_bfloat16_transposed",
                    "warpgroup_mma_m64n192k16_half",
                    "warpgroup_mma_m64n192k16_half_transposed",
                    "warpgroup_mma_m64n192k16_bfloat16",
                    "warpgroup_mma_m64n192k16_bfloat16_transposed",
                    "warpgroup_mma_m64n256k16_half",
                    "warpgroup_mma_m64n256k16_half_transposed",
                    "warpgroup_mma_m64n256k16_bfloat16",
                    "warpgroup_mma_m64n256k16_bfloat16_transposed",
                    "warpgroup_mma_m64n16k8_quads",
                    "warpgroup_mma_m64n32k8_quads",
                    "warpgroup_mma_m64n64k8_quads"},
       .of_tiles = true,
       .guide = {"Products of 4 warps from shared memory (wgmma; only compute capability 9.0): "
                 "`warpgroup_mma_m64nNk16_bfloat16(d, a, b, add)` and `_half`, N = 64, 128, 192, 256, with `float "
                 "d[N / 8][4]`: d = a b^T (+ d where `add`) of 64 and N rows of 16 elements, 128 bytes apart; tiles "
                 "begin at a multiple of 1024, 16-byte piece p of row r is in place p ^ (r % 8), `a` and `b` point "
                 "to row 0, 0 to 96 bytes in. Lane i of warp w has row 16 w + i / 4 (and 8 below), columns 8 n + 2 "
                 "(i % 4). `_transposed` variants take 16 rows of N elements of a row-major b: strips of 64 columns "
                 "8192 bytes apart, `b` at a multiple of 1024. `warpgroup_mma_m64nNk8_quads(d, a, a_step, a_rows, b, "
                 "b_step)`, N = 16, 32, 64: d += a b^T of rows of 8 floats as TF32 (truncated): 4 of a row are 16 "
                 "bytes, the next row's follow, a row's other 4 are a_step (b_step) bytes on; a's next 8 rows are "
                 "a_rows bytes on, b's follow. `fence_shared_async()` between copy_async_wait and "
                 "the barrier; then `warpgroup_fence()`, products, `warpgroup_commit()`, `warpgroup_wait<N>(d)` "
                 "before sums are read."}},
      {.name = "clusters",
       .words = {"cluster_rank(", "cluster_size(", "cluster_sync(", "load_cluster(", "store_cluster("},
       .of_warps = {"cluster_rank", "cluster_size", "cluster_sync", "load_cluster", "store_cluster"},
       .guide = {"Clusters of up to 8 blocks (compute capability 9.0): `__global__ void __cluster_dims__(x, y, z) "
                 "k(...)`, `cluster_rank()`, `cluster_size()`, `cluster_sync()`, `load_cluster(shared, rank)` and "
                 "`store_cluster(shared, rank, v)` of a float in another block's shared memory; end with "
                 "`cluster_sync()`."}},
      {.name = "tiles",
       .words = {"tensor_map", "transfer_", "load_tile", "store_tile"},
       .of_warps = {"transfer_init", "transfer_arrive", "transfer_expect", "transfer_wait", "load_tile", "store_tile",
                    "store_tile_commit", "store_tile_wait"},
       .of_tiles = true,
       .guide = {"Tensor maps (TMA, compute capability 9.0): `{\"in\": \"a\", \"map\": {\"box\": [64, 64], "
                 "\"swizzle\": 128}}` passes `const __grid_constant__ tensor_map a`. One thread: "
                 "`transfer_init(&bar, 1)` of an `unsigned long long` in shared memory, a `__syncthreads()` of all, "
                 "`transfer_expect(&bar, bytes)`, `load_tile(shared, a, &bar, row, column)`; all: "
                 "`transfer_wait(&bar, parity)`, parity 0, 1, 0... for each use. Boxes: up to 256 a dimension, rows "
                 "of 16 bytes or of the swizzle (then as warpgroups read them), zeros outside. Back: "
                 "`fence_shared_async()`, `__syncthreads()`, one thread `store_tile(y, shared, row, column)`, "
                 "`store_tile_commit()`, `store_tile_wait<0>()`."}}};
}

// Barriers between blocks and between kernels.
std::vector<dialect_part> order_parts() {
  return {{.name = "grid",
           .words = {"grid_sync("},
           .of_warps = {"grid_sync"},
           .guide = {"A launch with \"cooperative\": true runs all its blocks at once (no more than fit the GPU): "
                     "`grid_sync()` is a barrier of them. With \"programmatic\": true it may begin before the kernel "
                     "ahead has ended, which calls `let_next_kernel_begin()`; it calls `wait_for_previous_kernel()` "
                     "before it touches memory that others write."}},
          {.name = "fence", .words = {"fence_shared_async("}, .of_warps = {"fence_shared_async"}},
          {.name = "programmatic",
           .words = {"wait_for_previous_kernel(", "let_next_kernel_begin("},
           .of_threads = {"wait_for_previous_kernel", "let_next_kernel_begin"}}};
}

// Rows of numbers in registers.
std::vector<dialect_part> row_parts() {
  return {
      {.name = "ranks",
       .words = {"rank_of_", "place_of_rank", "element_of_rank", "no_rank", "_ranks"},
       .of_threads = {"no_rank", "rank_of_greater", "rank_of_smaller", "place_of_rank", "element_of_rank", "sort_ranks",
                      "merge_ranks", "keep_ranks", "merge_waiting_ranks", "merge_ranks_of_warps"},
       .in_dialect = true,
       .of_tiles = true,
       .guide = {"The k greatest of a row, k up to 64: `rank_of_greater(x, place)` (`rank_of_smaller`) is a `long "
                 "long` that orders elements, of equal ones the first; `sort_ranks(r)` sorts one of each lane of a "
                 "warp, `merge_ranks(kept, r)` merges 32 sorted ones into `long long kept[N]`, rank q of lane l the "
                 "(32 q + l)-th, `no_rank()` at first; `keep_ranks<true, WIDTH>(kept, limit, waiting, count, x, "
                 "place, apart, columns, k)` takes in `float x[V]` of each lane, V up to 32, and needs 64 `long long` "
                 "of shared "
                 "memory a warp; then `merge_waiting_ranks(kept, waiting, count)`, `merge_ranks_of_warps(kept, "
                 "found, warps)`; `place_of_rank(r)` and `element_of_rank<true>(r)` read one."}},
      {.name = "recurrent",
       .words = {"recurrent_", "_recurrent", "cell_lstm", "cell_gru"},
       .of_threads = {"recurrent_sigmoid", "recurrent_state", "begin_recurrent", "read_recurrent", "multiply_recurrent",
                      "finish_recurrent", "recurrent_layers"},
       .in_dialect = true,
       .of_tiles = true,
       .guide =
           {"LSTM, GRU and RNN layers by one cooperative launch: `recurrent_layers<CELL, LAYERS, DIRECTIONS, STEPS, "
            "BATCH, INPUT, HIDDEN, UNITS, ROWS, TERMS, BIASES, VECTORS>(x, x_step, x_batch, h0, c0, weights, out, "
            "hn, cn, kept, values, sums, [&] { grid_sync(); })`; `recurrent_sizes<...>` of the same has `threads` "
            "and, for each layer (or direction, where there are two), `parts` blocks."}},
      {.name = "rows",
       .words = {"sum_of_warp", "sum_of_block", "greatest_of_warp", "greatest_of_block", "greater_or_nan",
                 "_row_of_block"},
       .of_threads = {"sum_of_warp", "greatest_of_warp", "sum_of_block", "greatest_of_block", "greater_or_nan",
                      "load_row_of_block", "store_row_of_block", "load_half_row_of_block", "load_bfloat16_row_of_block",
                      "store_half_row_of_block", "store_bfloat16_row_of_block"},
       .needs = {"half"},
       .in_dialect = true,
       .of_tiles = true,
       .guide = {"Rows in a block's registers (blocks of one dimension, of THREADS threads): "
                 "`load_row_of_block<THREADS>(v, row, columns, outside)` into `float v[N]`, N a "
                 "multiple of 4, THREADS * N at least `columns`, which is a multiple of 4; "
                 "`store_row_of_block<THREADS>(row, "
                 "v, "
                 "columns)`; `load_half_row_of_block`, `_bfloat16_` and so on for `unsigned short`; "
                 "`sum_of_block<THREADS>(x, scratch)` and `greatest_of_block`, with a float of shared memory for each "
                 "warp; `sum_of_warp(x)`, `greatest_of_warp(x)`."}}};
}

// Products by tiles of shared memory.
std::vector<dialect_part> tile_parts() {
  return {
      {.name = "shared_tiles",
       .words = {"shared_tile<", "padded_tile<", "matrix_part", "part_of_matrix", "copy_to_tile", "for_stages",
                 "multiply_ab", "multiply_atb", "multiply_fragments", "add_to_sums", "load_a_fragments",
                 "load_b_fragments", "for_each_pair", "sums_of_rows", "greatest_of_rows", "store_pair_as"},
       .of_threads = {"part_of_matrix", "copy_to_tile", "for_stages", "load_a_fragments", "load_b_fragments",
                      "multiply_fragments", "multiply_ab", "multiply_abt", "multiply_atb", "for_each_pair",
                      "add_to_sums", "sums_of_rows", "greatest_of_rows", "store_pair_as"},
       .needs = {"half", "tensor_cores", "rows"},
       .in_dialect = true,
       .of_tiles = true,
       .guide =
           {"Products by tiles of shared memory (compute capability 8.0; blocks of one dimension, of THREADS threads): "
            "`shared_tile<T, ROWS, COLUMNS>` is a swizzled layout, `::elements` its size, `::at(row, column)` a place; "
            "tiles begin at multiples of 128 bytes. `copy_to_tile<TILE, THREADS>(tile, from)` begins a block's copies, "
            "in aligned pieces of 16 bytes (a third argument says 4 or 8), where `from(row, column)` is the address of "
            "a piece, or nullptr for zeros: a lambda for gathers and convolutions, or `part_of_matrix(first, stride, "
            "rows, columns)`, all of whole pieces. `for_stages<STAGES>(steps, [&](int step, int stage) { copies }, "
            "[&](int step, int stage) { products })` is the pipeline, which begins with a barrier.",
            "`multiply_ab<MMA, A, B>(sums, a, b, row, column)` adds the product of a warp's rows and columns of "
            "two tiles to `float sums[DOWN][ACROSS][4]`, 16 DOWN rows by 8 ACROSS columns, ACROSS even; "
            "`multiply_abt`: b is columns x terms, as weights of linear layers; `multiply_atb`: a is terms x rows. "
            "MMA: `mma_tf32x3` (float32's accuracy on tensor cores), `mma_tf32`, `mma_half`, `mma_bfloat16` "
            "(elements `unsigned short`), `mma_float32` (no tensor cores). Then `for_each_pair(sums, row, column, "
            "[&](int row, int column, float x, float y) { ... })`: two neighbouring columns, the first "
            "one even; `store_pair_as<mma_half>(to, x, y)`; `sums_of_rows(of_rows, sums)` and `greatest_of_rows` fill "
            "`float of_rows[DOWN][2]`, of the warp's columns and rows r * 16 + lane / 4 and 8 below."}},
      {.name = "warpgroup_tiles",
       .words = {"multiply_abt_by_warpgroup"},
       .of_threads = {"multiply_abt_by_warpgroup"},
       .needs = {"half", "tensor_cores", "rows", "shared_tiles", "warpgroups", "fence"},
       .in_dialect = true,
       .of_tiles = true,
       .guide = {"On compute capability 9.0 `multiply_abt_by_warpgroup<MMA, A, B>(sums, a, b, row)` multiplies half "
                 "types by wgmma: 64 rows from `row` on by four warps, all columns of b, `float sums[1][columns / "
                 "8][4]`, tiles `shared_tile<unsigned short, N, 64>` at multiples of 1024 bytes (`extern __shared__ "
                 "__align__(1024)`); a warp's rows begin at row + warp % 4 * 16; "
                 "`for_stages` gets `[&] { fence_shared_async(); }` as its last argument."}},
      {.name = "attention",
       .words = {"attention_"},
       .of_threads = {"attention_mask", "attention_weights", "attention_values", "attention_rows"},
       .needs = {"shared_tiles"},
       .in_dialect = true,
       .of_tiles = true,
       .guide = {
           "softmax(q k^T) v of float32 without the weights in memory (compute capability 8.0), by a block of 32 WARPS "
           "threads for as many rows of q: `typedef attention_sizes<DEPTH, WIDTH, KEYS, WARPS> S; "
           "attention_rows<S, MASKS>(q, q_apart, k, k_apart, v, v_apart, out, out_apart, first_row, rows, keys, "
           "shared, score, is_masked)` with S::shared floats of shared memory; `score(row, column, s)` gives a score "
           "of the product s in powers of two (times 1.4427), `is_masked(row, column)` says which do not "
           "count."}}};
}

}  // namespace
// NOLINTEND(bugprone-suspicious-missing-comma)

const std::vector<dialect_part>& dialect_parts() {
  static const std::vector<dialect_part> all = [] {
    std::vector<dialect_part> parts;
    for (const auto& group : {warp_parts(), hopper_parts(), order_parts(), row_parts(), tile_parts()})
      parts.insert(parts.end(), group.begin(), group.end());
    return parts;
  }();
  return all;
}

bool needs_part(std::string_view source, const dialect_part& part) {
  const bool is_named = std::ranges::any_of(part.words, [&](std::string_view word) {
    return word.ends_with('(') ? calls(source, word.substr(0, word.size() - 1))
                               : source.find(word) != std::string_view::npos;
  });
  return is_named || std::ranges::any_of(dialect_parts(), [&](const dialect_part& other) {
           return std::ranges::count(other.needs, part.name) > 0 && needs_part(source, other);
         });
}

std::vector<std::string_view> tile_functions_in(std::string_view source) {
  auto tokens = scan(source, directive_form::words);
  std::erase_if(tokens, [](const token& t) { return t.kind == token_kind::comment; });
  std::set<std::string_view> called;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
    if (tokens[i + 1].is("(") || tokens[i + 1].is("<")) called.insert(tokens[i].text);
  std::vector<std::string_view> out;
  for (const auto& part : dialect_parts())
    if (part.of_tiles)
      for (const auto* list : {&part.of_warps, &part.of_threads})
        for (const auto name : *list)
          if (called.contains(name)) out.push_back(name);
  return out;
}

}  // namespace cudal1
