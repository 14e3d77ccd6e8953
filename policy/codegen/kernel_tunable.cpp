#include "policy/codegen/kernel_tunable.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

namespace cudal1 {

std::span<const kernel_tunable> known_tunables() {
  static constexpr std::array<kernel_tunable, 9> all{{
      {kernel_tunable::block, "threads", "how many threads a block has: blocks are what is distributed over processors",
       "blocks of {} threads"},
      {kernel_tunable::items, "elements",
       "how many elements (or rows of a tile) one thread takes; on cuda in vectors of up to 4",
       "{} elements per thread"},
      {kernel_tunable::row_threads, "threads",
       "how many threads share a row of a reduction: a few, a warp or a block; the block's other threads take other "
       "rows (cuda)",
       "{} threads per row"},
      {kernel_tunable::row_blocks, "blocks",
       "how many blocks, a cluster of compute capability 9.0, share a row: where there are few rows, or long ones that "
       "a "
       "block's registers do not hold (cuda)",
       "clusters of {} blocks share a row"},
      {kernel_tunable::unroll, "accumulators",
       "how many partial results of a reduction a thread accumulates, so that they vectorise; on cuda how many "
       "vectors of a row a thread reads before it computes",
       "{} partial results per thread"},
      {kernel_tunable::tile_rows, "rows", "how many rows of a product's result a block computes (cuda)",
       "tiles of {} rows"},
      {kernel_tunable::tile_columns, "columns", "how many columns of a product's result a block computes (cuda)",
       "tiles of {} columns"},
      {kernel_tunable::depth_parts, "parts",
       "into how many parts the sums of a small product are cut, so that all processors have work; a second kernel "
       "adds them up (cuda)",
       "sums cut into {} parts"},
      {kernel_tunable::channels, "channels",
       "how many channels of a convolution's result a thread makes at a time (cuda)", "{} channels per thread"},
  }};
  return all;
}

kernel_tunable declared(std::string_view name, std::span<const int64_t> values,
                        bool (*is_useful)(int64_t, const kernel_body&, const kernel_options&)) {
  const auto known = std::ranges::find(known_tunables(), name, &kernel_tunable::name);
  if (known == known_tunables().end()) throw std::logic_error("no move chooses " + std::string(name));
  kernel_tunable out = *known;
  out.values = values;
  out.is_useful = is_useful;
  return out;
}

}  // namespace cudal1
