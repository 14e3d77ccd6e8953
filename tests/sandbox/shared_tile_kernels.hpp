// Kernels of the dialect's tiles of shared memory and rows of blocks, for the tests of both devices: products of ragged
// sizes by every instruction and in every order of the operands.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace cudal1::test {

// y = a b, float32: of `rows` x `terms` and `terms` x `columns`, either of which may lie the other way. Tiles of 32 x
// 32 by two warps, three stages of 32 terms.
struct tile_product {
  const char* mma;
  const char* multiply;  // the dialect's function
  bool padded = false;   // the tiles' layout

  bool is_half() const { return std::string(mma) == "mma_half" || std::string(mma) == "mma_bfloat16"; }
  bool left_by_terms() const { return std::string(multiply) == "multiply_atb"; }
  bool right_by_columns() const { return std::string(multiply) == "multiply_abt"; }
  std::string kernel() const { return std::string(mma) + "_" + multiply + (padded ? "_padded" : ""); }
};

inline constexpr int64_t tile_rows = 44, tile_columns = 36, tile_terms = 76;  // of the matrices
inline constexpr std::array<int64_t, 3> tile_grid{2, 2, 1}, tile_block{64, 1, 1};
inline constexpr int64_t tile_shared_bytes = 3 * 2 * 32 * 40 * 4;

inline std::string tile_product_kernel(const tile_product& p) {
  const std::string tile = p.padded ? "padded_tile<T, 32, 32, 40>" : "shared_tile<T, 32, 32>";
  const auto part = [](const char* matrix, bool turned, const std::string& line, const std::string& term,
                       const std::string& lines) {
    const std::string at = turned ? term + " * " + lines + " + " + line : line + " * terms + " + term;
    const std::string left = lines + " - " + line, deep = "terms - " + term;
    return std::string("part_of_matrix(") + matrix + " + " + at + ", " + (turned ? lines : "terms") + ", " +
           (turned ? deep + ", " + left : left + ", " + deep) + ")";
  };
  return "__global__ void " + p.kernel() + "(const " + std::string(p.is_half() ? "unsigned short" : "float") +
         "* a, const " + (p.is_half() ? "unsigned short" : "float") +
         R"(* b, float* y) {
  const int rows = )" +
         std::to_string(tile_rows) + ", columns = " + std::to_string(tile_columns) +
         ", terms = " + std::to_string(tile_terms) + R"(;
  typedef )" +
         (p.is_half() ? "unsigned short" : "float") + R"( T;
  typedef )" +
         tile + R"( tile;
  extern __shared__ float memory[];
  T* const stages = (T*)memory;
  const int first_row = blockIdx.y * 32, first_column = blockIdx.x * 32, warp_row = threadIdx.x / 32 * 16;
  float sums[1][4][4] = {};
  for_stages<3>((terms + 31) / 32,
      [&](int step, int stage) {
        T* const at = stages + stage * 2 * tile::elements;
        copy_to_tile<tile, 64, 4>(at, )" +
         part("a", p.left_by_terms(), "first_row", "step * 32", "rows") + R"();
        copy_to_tile<tile, 64, 4>(at + tile::elements, )" +
         part("b", !p.right_by_columns(), "first_column", "step * 32", "columns") + R"();
      },
      [&](int, int stage) {
        const T* const at = stages + stage * 2 * tile::elements;
        )" +
         p.multiply + "<" + p.mma + R"(, tile, tile>(sums, at, at + tile::elements, warp_row, 0);
      });
  for_each_pair(sums, first_row + warp_row, first_column, [&](int row, int column, float u, float v) {
    if (row < rows && column < columns) store_pair_as<mma_float32>(y + row * columns + column, u, v);
  });
}
)";
}

// y = a b^T of the matrices above by two warpgroups, in one block of 256 threads.
inline constexpr int64_t warpgroup_shared_bytes = 2 * (128 + 64) * 64 * 2 + 1024;
inline std::string warpgroup_tile_kernel(const std::string& mma) {
  return "__global__ void " + mma + R"(_by_warpgroups(const unsigned short* a, const unsigned short* b, float* y) {
  typedef shared_tile<unsigned short, 128, 64> a_tile;
  typedef shared_tile<unsigned short, 64, 64> b_tile;
  extern __shared__ __align__(1024) unsigned short halves[];
  const int rows = )" +
         std::to_string(tile_rows) + ", columns = " + std::to_string(tile_columns) +
         ", terms = " + std::to_string(tile_terms) + R"(;
  const int warp = threadIdx.x / 32;
  float sums[1][8][4] = {};
  for_stages<2>((terms + 63) / 64,
      [&](int step, int stage) {
        unsigned short* const at = halves + stage * (a_tile::elements + b_tile::elements);
        copy_to_tile<a_tile, 256, 8>(at, part_of_matrix(a + step * 64, terms, rows, terms - step * 64));
        copy_to_tile<b_tile, 256, 8>(at + a_tile::elements,
                                     part_of_matrix(b + step * 64, terms, columns, terms - step * 64));
      },
      [&](int, int stage) {
        const unsigned short* const at = halves + stage * (a_tile::elements + b_tile::elements);
        multiply_abt_by_warpgroup<)" +
         mma + R"(, a_tile, b_tile>(sums, at, at + a_tile::elements, warp / 4 * 64);
      },
      [&] { fence_shared_async(); });
  for_each_pair(sums, warp * 16, 0, [&](int row, int column, float u, float v) {
    if (row < rows && column < columns) store_pair_as<mma_float32>(y + row * columns + column, u, v);
  });
}
)";
}

// What the products above have not: tiles of 24 x 40, which the threads of a block share unevenly, an odd number of
// fragments, half types stored, reductions of rows. y = a b (48 x 40 and 40 x 24), z = y as half, of_rows: for each row
// its sum, and its greatest value. One block of 96 threads.
inline constexpr const char* uneven_tile_kernel = R"(
__global__ void uneven(const float* a, const float* b, float* y, unsigned short* z, float* of_rows) {
  typedef shared_tile<float, 48, 40> a_tile;
  typedef shared_tile<float, 40, 24> b_tile;
  __shared__ __align__(128) float at[a_tile::elements], bt[b_tile::elements];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float sums[1][3][4] = {};
  copy_to_tile<a_tile, 96>(at, part_of_matrix(a, 40, 48, 40));
  copy_to_tile<b_tile, 96, 8>(bt, part_of_matrix(b, 24, 40, 24));
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  multiply_ab<mma_tf32, a_tile, b_tile>(sums, at, bt, warp * 16, 0);
  for_each_pair(sums, warp * 16, 0, [&](int row, int column, float u, float v) {
    store_pair_as<mma_tf32>(y + row * 24 + column, u, v);
    store_pair_as<mma_half>(z + row * 24 + column, u, v);
  });
  float added[1][2], greatest[1][2];
  sums_of_rows(added, sums);
  greatest_of_rows(greatest, sums);
  for (int below = 0; below < 2; ++below) {
    const int row = warp * 16 + below * 8 + lane / 4;
    of_rows[row] = added[0][below];
    of_rows[48 + row] = greatest[0][below];
  }
}
__global__ void uneven_halves(const unsigned short* a, const unsigned short* b, float* y) {
  typedef shared_tile<unsigned short, 48, 48> a_tile;
  typedef shared_tile<unsigned short, 24, 48> b_tile;
  __shared__ __align__(128) unsigned short at[a_tile::elements], bt[b_tile::elements];
  float sums[1][3][4] = {};
  copy_to_tile<a_tile, 96>(at, part_of_matrix(a, 48, 48, 48));
  copy_to_tile<b_tile, 96, 4>(bt, part_of_matrix(b, 48, 24, 48));
  copy_async_commit();
  copy_async_wait<0>();
  __syncthreads();
  multiply_abt<mma_bfloat16, a_tile, b_tile>(sums, at, bt, threadIdx.x / 32 * 16, 0);
  for_each_pair(sums, threadIdx.x / 32 * 16, 0, [&](int row, int column, float u, float v) {
    store_pair_as<mma_float32>(y + row * 24 + column, u, v);
  });
}
)";

inline std::array<tile_product, 18> tile_products() {
  std::array<tile_product, 18> all{};
  std::size_t n = 0;
  for (const char* mma : {"mma_half", "mma_bfloat16", "mma_tf32", "mma_tf32x3", "mma_float32"})
    for (const char* multiply : {"multiply_ab", "multiply_abt", "multiply_atb"})
      all[n++] = {mma, multiply};
  for (const char* multiply : {"multiply_ab", "multiply_abt", "multiply_atb"})
    all[n++] = {"mma_half", multiply, true};
  return all;
}

}  // namespace cudal1::test
