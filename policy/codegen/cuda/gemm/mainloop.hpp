// The main loops of a product's kernel: how a block adds up the terms of its tile. Each is a row of a table, which says
// what it can multiply, how it divides the work and how its kernel is written; nothing else knows one by name. A new
// one is a file with its row, and a line in mainloops.cpp.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "policy/codegen/cuda/gemm/product_tiling.hpp"

namespace cudal1 {

// What a main loop can make of the left factor on its way: nothing, something with elements of the same row or of the
// same term, or anything.
enum class left_making { as_it_is, of_row_or_term, any };

struct mainloop {
  // As product_kernel names it: "factors", "halves". Empty ones of the one that is meant where none is named.
  std::string_view parameter, value;
  // What it does, for people, behind the product's name; and of float32 factors, if that is another thing.
  std::string_view explanation, float32_explanation = explanation;

  bool tensor_cores = true, warpgroups = false;  // what the device must have
  int64_t most_terms = std::numeric_limits<int64_t>::max();
  bool multiplies_products = false;  // whether the left factor may be a product that the kernel makes
  left_making makes_left = left_making::of_row_or_term;
  bool copies = true;  // factors lie in memory as vectors of 16 or 4 bytes
  // Of the terms side by side in vectors of 16 bytes, or, where `strips`, of the right factor's columns.
  bool terms_in_vectors = false, strips = false;
  bool swizzled = false;                 // tiles in shared memory
  bool splits_depth = true;              // between blocks
  bool rows_pay = true;                  // the rows that follow the product in the same kernel
  bool clusters = true;                  // whose blocks may hold these rows together
  bool shares_of_warps = true;           // a warp has some columns of a tile, of each of several right factors
  bool multiplies_whole_stages = false;  // terms behind the end are zeros in memory
  // Of the stages' memory in its kernels: the array's name, and whether it is one of float or of half types.
  std::string_view stages = "tiles";
  bool stages_of_floats = true;

  // What every main loop has. Whether it makes tiles of so many rows and columns; which these are, for people.
  bool (*is_tile)(int64_t rows, int64_t columns) = nullptr;
  std::string (*tiles)() = nullptr;
  // The shares of a tile's warps, and the stages; the tile and the parts of the depth are known (set_parts).
  void (*divide)(product_tiling& t, int64_t parts) = nullptr;
  product_work (*work)(const product_tiling& t) = nullptr;  // of its kernel
  emitted_kernel (*emit)(const emit_request& request, const product_tiling& t) = nullptr;

  // And what is nullptr where there is nothing to say.
  // errc::unsupported with the reason where it does not multiply these types.
  expected<void> (*check_types)(dtype of) = nullptr;
  // The reason why the tiling cannot be, or "".
  std::string (*why_not)(const product_tiling& t) = nullptr;
  int64_t (*bytes_of_stages)(const product_tiling& t) = nullptr;                       // in shared memory
  double (*cycles_ahead)(const kernel_body& body, const product_tiling& t) = nullptr;  // of other kernels, before it
  double cycles_of_next_kernel = 2600;  // until one behind it has what it reads
};

// Tiles in shared memory, which asynchronous copies bring some stages ahead, and mma: the one that is meant where none
// is named. Float32 factors as two TF32 parts each.
extern const mainloop cp_async_mainloop;
// Each warp multiplies other terms, which it reads from memory to its registers: for small products.
extern const mainloop sliced_k_mainloop;
// Float32 factors as two halves each, scaled by powers of two, which other kernels make: for large products.
extern const mainloop split_fp16_mainloop;
// Tiles of half types that warpgroups multiply: for large products.
extern const mainloop wgmma_mainloop;
// Few terms, which each thread adds up without tensor cores.
extern const mainloop simt_mainloop;

// All of them, in the order in which they are tried where estimates are the same.
std::span<const mainloop* const> mainloops();
// By its value in schedules; null where there is none.
const mainloop* find_mainloop(std::string_view value);

// The parts of the depth, of whole stages: `stage_depth` is known.
void set_parts(product_tiling& t, int64_t parts);

// Clock cycles of a kernel on tiles until those in shared memory are there, and for the results.
inline constexpr double cycles_of_tiles = 1600;
// Bytes of a row of a swizzled tile in shared memory; rows and columns of the least tile of warpgroups.
inline constexpr int64_t swizzled_row_bytes = 128, least_warpgroup_tile = 64;
// Shared memory of a multiprocessor, and of each block where two fit.
inline constexpr int64_t shared_bytes_of_processor = int64_t{224} << 10, shared_bytes_of_two = int64_t{96} << 10;
inline constexpr int64_t most_stages = 6;

}  // namespace cudal1
