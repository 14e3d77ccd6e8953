// The main loops of a product's kernel: how a block adds up its tile along k. Each is a row of a table, which says what
// it can multiply, how it divides the work and how its kernel is written; nothing else knows one by name. A new one is
// a file with its row, and a line in mainloops.cpp.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "policy/codegen/cuda/gemm/product_tiling.hpp"

namespace cudal1 {

// What the kernel can compute to make A of what it reads (the prologue): nothing, something with one value for each row
// or for each index along k, or anything.
enum class a_prologue { none, per_row_or_k, any };

struct mainloop {
  // As product_kernel names it: "factors", "halves". Empty for the main loop that is meant where none is named.
  std::string_view parameter, value;
  // What it does, for people, behind the product's name; for float32 operands, if that is another thing.
  std::string_view explanation, float32_explanation = explanation;

  bool tensor_cores = true, warpgroups = false;  // what the device must have
  int64_t most_k = std::numeric_limits<int64_t>::max();
  bool prologue_products = false;  // whether A may be a product that the kernel makes
  a_prologue prologue = a_prologue::per_row_or_k;
  bool copies = true;  // operands lie in memory as vectors of 16 or 4 bytes
  // Whether these vectors are of 16 bytes along k, or, where `strips`, along B's columns.
  bool k_in_vectors = false, strips = false;
  bool swizzled = false;                 // tiles in shared memory
  bool splits_k = true;                  // k may be split between blocks
  bool row_epilogue_pays = true;         // whether an epilogue of rows is worth computing in the product's kernel
  bool clusters = true;                  // whose blocks may hold these rows together
  bool shares_of_warps = true;           // a warp has some columns of a tile, of each of several Bs
  bool multiplies_whole_stages = false;  // elements behind the end of k are zeros in memory
  // The shared memory of the stages in its kernels: the array's name, and whether it is one of float or of half types.
  std::string_view stages = "tiles";
  bool stages_of_floats = true;

  // What every main loop has. Whether it makes tiles of so many rows and columns; which these are, for people.
  bool (*is_tile)(int64_t rows, int64_t columns) = nullptr;
  std::string (*tiles)() = nullptr;
  // The shares of a tile's warps, and the stages; the tile and the parts of k are known (set_parts).
  void (*divide)(product_tiling& t, int64_t parts) = nullptr;
  product_work (*work)(const product_tiling& t) = nullptr;  // of its kernel
  expected<emitted_kernel> (*emit)(const emit_request& request, const product_tiling& t) = nullptr;

  // These are nullptr where there is nothing to say. errc::unsupported with the reason where it does not multiply these
  // types.
  expected<void> (*check_types)(dtype of) = nullptr;
  // The reason why the tiling cannot be, or "".
  std::string (*why_not)(const product_tiling& t) = nullptr;
  int64_t (*bytes_of_stages)(const product_tiling& t) = nullptr;                       // in shared memory
  double (*cycles_ahead)(const kernel_body& body, const product_tiling& t) = nullptr;  // of kernels before it
  double cycles_of_next_kernel = 2600;  // until the kernel behind it has what it reads
};

// Tiles in shared memory, which asynchronous copies bring some stages ahead, and mma: the one that is meant where none
// is named. Float32 operands are two TF32 parts each.
extern const mainloop cp_async_mainloop;
// Each warp takes another slice of k, which it reads from memory to its registers: for small products.
extern const mainloop sliced_k_mainloop;
// Float32 operands are two halves each, scaled by powers of two, which other kernels make: for large products.
extern const mainloop split_fp16_mainloop;
// Tiles of half types that warpgroups multiply: for large products.
extern const mainloop wgmma_mainloop;
// A small k: each thread adds up its elements without tensor cores.
extern const mainloop simt_mainloop;

// All main loops, in the order in which they are tried where estimates are the same.
std::span<const mainloop* const> mainloops();
// The main loop of that value in schedules; null where there is none.
const mainloop* find_mainloop(std::string_view value);

// Splits k into so many parts of whole stages: `stage_k` is known.
void set_parts(product_tiling& t, int64_t parts);

// Clock cycles of a kernel on tiles until those in shared memory are there, and for the results.
inline constexpr double cycles_of_tiles = 1600;
// Bytes of a row of a swizzled tile in shared memory; rows and columns of the least tile of warpgroups.
inline constexpr int64_t swizzled_row_bytes = 128, least_warpgroup_tile = 64;
// Shared memory of a multiprocessor, and of each block where two fit.
inline constexpr int64_t shared_bytes_of_processor = int64_t{224} << 10, shared_bytes_of_two = int64_t{96} << 10;
inline constexpr int64_t most_stages = 6;

}  // namespace cudal1
