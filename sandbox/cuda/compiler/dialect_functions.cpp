#include "sandbox/cuda/compiler/dialect_functions.hpp"

#include <algorithm>
#include <vector>

#include "sandbox/cuda/compiler/prologue.hpp"
#include "sandbox/program/source.hpp"

namespace cudal1 {
namespace {

enum class by { prefix, call };  // any word that begins so, or one that stands before a parenthesis

struct family {
  std::string_view (*text)();
  by named;
  std::vector<std::string_view> words;
};

const std::vector<family>& families() {
  static const std::vector<family> all{
      {prologue_half, by::prefix, {"float_of_", "_of_float"}},
      {prologue_tensor_cores, by::prefix, {"mma_m16n8k", "load_matrix_x", "copy_async", "tf32_of_float"}},
      {prologue_warpgroups,
       by::prefix,
       {"warpgroup_mma_m64n", "warpgroup_fence", "warpgroup_commit", "warpgroup_wait"}},
      {prologue_tiles, by::prefix, {"tensor_map", "transfer_", "load_tile", "store_tile"}},
      {prologue_clusters, by::call, {"cluster_rank", "cluster_size", "cluster_sync", "load_cluster", "store_cluster"}},
      {prologue_grid, by::call, {"grid_sync"}},
      {prologue_fence, by::call, {"fence_shared_async"}},
      {prologue_ranks, by::prefix, {"rank_of_", "place_of_rank", "no_rank", "_ranks"}},
      {prologue_programmatic, by::call, {"wait_for_previous_kernel", "let_next_kernel_begin"}}};
  return all;
}

}  // namespace

std::string dialect_functions(std::string_view source) {
  std::string text;
  for (const auto& f : families())
    if (std::ranges::any_of(f.words, [&](std::string_view word) {
          return f.named == by::call ? calls(source, word) : source.find(word) != std::string_view::npos;
        }))
      text += f.text();
  return text;
}

bool calls_grid_sync(std::string_view source) {
  return calls(source, "grid_sync");
}

}  // namespace cudal1
