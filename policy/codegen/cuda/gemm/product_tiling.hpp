// How the work of a product is divided on a GPU: a block computes a tile of the result from all of k or a part of it
// (split-K), its warps equal shares of the tile, or of k (sliced K).
#pragma once

#include <array>
#include <vector>

#include "policy/body/matrix_product.hpp"
#include "policy/codegen/lowering_target.hpp"
#include "policy/tile/layout.hpp"

namespace cudal1 {

struct mainloop;

// One of a product's operands, seen from its tiles in shared memory.
struct product_side {
  int access = -1;
  std::vector<int> dims;    // the axes of its lines: A's rows, or B's columns
  int64_t size = 1;         // of these axes together: m or n
  int64_t step = 0;         // along k, in elements
  bool is_k_major = false;  // what a thread copies lies along k, and so does a tile in shared memory
  int64_t width = 1;        // elements that a thread copies at once, of 16 or 4 bytes
};

struct product_tiling {
  matrix_product of;
  product_side a, b;
  std::vector<int> batch;  // axes that both operands have
  int64_t batches = 1, k = 0;
  int64_t inner_k = 0;                      // of the product that makes A
  dtype type = dtype::float32;              // of both operands
  int64_t products = 1;                     // of A with a B each; a tile's columns are of all of them, see column_of
  int64_t rows = 0, columns = 0;            // of a tile
  int64_t warp_rows = 0, warp_columns = 0;  // of a warp's share of it
  int64_t slices = 1;                       // of k: warps that share it, each a slice of a stage
  int64_t parts = 1, part_k = 0;            // into which k is split; `part_k`: a multiple of `stage_k`
  int64_t stages = 0, stage_k = 0;          // tiles in flight (of a warp, with sliced K); k of one
  int64_t blocks = 0;
  // Blocks of a cluster, whose tiles are neighbours: each gets some rows of the body as a whole from the others.
  int64_t row_blocks = 1;
  bool has_row_epilogue = false;  // the kernel computes the rows over which the body reduces
  const mainloop* loop = nullptr;

  int64_t warps() const { return rows / warp_rows * (columns / warp_columns) * slices; }
  // `side`: one of this object's.
  bool is_a(const product_side& side) const { return &side == &a; }
  // Lines of the side (A's rows, B's columns): in a tile, of one B; and of all matrices, in whole tiles.
  int64_t tile_lines(const product_side& side) const { return is_a(side) ? rows : own_columns(); }
  int64_t padded_lines(const product_side& side) const { return is_a(side) ? padded_rows() : padded_columns(); }
  // Columns of the result, in a tile and in a warp's share of it.
  int64_t own_columns() const { return columns / products; }
  int64_t warp_own_columns() const { return warp_columns / products; }
  int64_t row_tiles() const { return (a.size + rows - 1) / rows; }
  int64_t column_tiles() const { return (b.size + own_columns() - 1) / own_columns(); }
  int64_t padded_rows() const { return batches * row_tiles() * rows; }  // of all matrices, in whole tiles
  int64_t padded_columns() const { return batches * column_tiles() * own_columns(); }  // of one B
  bool shares_rows() const { return row_blocks > 1; }
  int64_t rows_of_block() const { return (rows + row_blocks - 1) / row_blocks; }  // of the body, if it shares rows
  int64_t stages_of(int64_t length) const { return (length + stage_k - 1) / stage_k; }
};

// Whether the last of the side's tiles, of so many rows or columns, has some that do not exist.
inline bool has_partial_tile(const product_side& side, int64_t tile) {
  return side.size % tile != 0;
}

inline constexpr std::array<int64_t, 4> product_tile_rows{16, 32, 64, 128};
inline constexpr std::array<int64_t, 6> product_tile_columns{16, 32, 64, 128, 192, 256};
inline constexpr std::array<int64_t, 6> product_k_parts{1, 2, 3, 4, 8, 16};

// Columns of B that are contiguous in shared memory where warpgroups multiply them as they are in memory.
inline constexpr int64_t strip_columns = 64;

// How one stage of an operand's tile of so many rows (or columns) lies in shared memory: k-major, or a line for each
// index along k.
tile::layout layout_of(const product_tiling& t, const product_side& side, int64_t rows);

// The tiling that the options choose, with estimates for what they leave open. errc::unsupported with the reason where
// there is none.
expected<product_tiling> tiling_of(const kernel_body& body, const kernel_options& options);

// Shared memory: of all stages; of the block's tile as float32, once for each slice, and from one of its rows to the
// next, in elements; of what a kernel uses that computes rows: the tile in the place of the stages, and behind both the
// rows that the block gets from its cluster.
int64_t bytes_of_stages(const product_tiling& t);
int64_t bytes_of_sums(const product_tiling& t);
int64_t line_of_sums(const product_tiling& t);
int64_t place_of_shared_rows(const product_tiling& t);  // in bytes
int64_t bytes_of_rows(const product_tiling& t);
// Bytes of stages and rows, as the kernel has them.
int64_t bytes_of_shared_memory(const product_tiling& t);

// Whether the product's kernel computes the rest of the body too. Otherwise a second kernel does, and adds the sums of
// the parts of k up (split-K).
bool is_one_kernel(const kernel_body& body, const product_tiling& t);

// What the product's own kernel does: estimates fitted to measurements on an H100 (cp_async) and an H200.
product_work work_of(const product_tiling& t);

// See lowering_target::product_choices.
std::vector<product_choice> choices_by_estimate(const kernel_body& body);

}  // namespace cudal1
