#include "policy/codegen/cuda/warpgroup_convolution.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "policy/codegen/lowering_target.hpp"

namespace cudal1 {

namespace {

constexpr int64_t k_most_columns = 64;
constexpr int64_t k_most_sums = 128;           // of a thread
constexpr int64_t k_shared_bytes = 227 << 10;  // of a block, at most
constexpr int64_t k_registers = 65536;         // of a processor

double cycles_of_all(const warpgroup_convolution& l) {
  auto tiles = static_cast<double>(l.parts_of_channels(l.columns));
  for (const auto& d : l.dimensions)
    tiles *= static_cast<double>(d.tiles());
  return tiles * l.cycles();
}

// What the options say, 0 where they leave it open.
struct wanted_tile {
  int64_t columns = 0, warpgroups = 0, patches = 0;
  bool suits(const warpgroup_convolution& l) const {
    return (columns == 0 || columns == l.columns) && (warpgroups == 0 || warpgroups == l.warpgroups) &&
           (patches == 0 || patches == l.patches);
  }
};

// All ways to put the patches of the warpgroups together.
std::vector<warpgroup_convolution> tiles_of(const warpgroup_convolution& from) {
  constexpr int64_t side = warpgroup_convolution::patch_side, patch = warpgroup_convolution::patch_places;
  std::vector<warpgroup_convolution> out;
  const int64_t patches = from.warpgroups * from.patches;
  for (const bool squares : {true, false})
    for (int64_t across = patches; across >= 1; --across) {
      if (patches % across != 0 || (!from.is_stacked() && (squares || across != patches))) continue;
      warpgroup_convolution& l = out.emplace_back(from);
      l.has_squares = squares;
      l.across = across;
      l.dimensions[0].tile = across * (squares ? side : patch);
      if (l.is_stacked()) l.dimensions[1].tile = patches / across * (squares ? side : 1);
    }
  std::erase_if(out, [](const warpgroup_convolution& l) {
    return l.line_of_results() % l.pool_across() != 0 || (l.is_stacked() && l.dimensions[1].tile % l.pool_down() != 0);
  });
  return out;
}

// The fastest that fits.
std::optional<warpgroup_convolution> fastest(warpgroup_convolution l, const wanted_tile& wanted) {
  std::optional<warpgroup_convolution> best;
  double least = 0;
  for (const int64_t columns : {64, 32, 16})
    for (const int64_t warpgroups : {2, 1})
      for (int64_t patches = 1; patches <= 4; ++patches) {
        l.columns = columns;
        l.warpgroups = warpgroups;
        l.patches = patches;
        if (!wanted.suits(l) || l.parts * patches * columns / 2 > k_most_sums) continue;
        for (auto& each : tiles_of(l)) {
          const double cycles = cycles_of_all(each);
          if (each.shared_bytes() > k_shared_bytes || (best && cycles >= least)) continue;
          least = cycles;
          best = std::move(each);
        }
      }
  return best;
}

}  // namespace

int64_t warpgroup_convolution::registers() const {
  const int64_t staged = outer() * lines() * lane().reach(), rounds = (staged + threads() - 1) / threads();
  const int64_t pooled = pools() ? pooled_rounds() * pooled_channels() : 0;
  return parts * patches * columns / 2 + rounds * chunk + pooled + 56;
}

int64_t warpgroup_convolution::pooled_channels() const {
  int64_t out = 8;
  while (out > 1 && windows_of_tile() * columns / out < threads())
    out /= 2;
  return out;
}

int64_t warpgroup_convolution::blocks_on_processor() const {
  const bool fits = 2 * (shared_bytes() + 1024) <= k_shared_bytes + 1024;
  return fits && registers() <= k_registers / (2 * threads()) ? 2 : 1;
}

// Fitted to 2-D and 3-D convolutions of 3 to 64 channels, which took between 0.85 and 1.2 times as long.
double warpgroup_convolution::cycles() const {
  double of_blocks = 1, share = 1;  // phases, and those of them that have weights
  for (std::size_t i = 0; i < dimensions.size(); ++i) {
    int64_t used = 0;
    for (int64_t n = 0; n < dimensions[i].phases(); ++n)
      used += dimensions[i].phase_of(n).taps > 0 ? 1 : 0;
    of_blocks *= static_cast<double>(phases_of_blocks(i));
    share *= static_cast<double>(used) / static_cast<double>(dimensions[i].phases());
  }
  auto all_taps = static_cast<double>(weights()) / static_cast<double>(in_channels);
  for (std::size_t i = 0; i < dimensions.size(); ++i)  // places in passes have all of them each
    if (is_in_passes(i) && dimensions[i].phases() == 1) all_taps *= static_cast<double>(dimensions[i].pool);
  const double products =
      static_cast<double>(warpgroups * patches * chunks() * (parts > 1 ? 3 : 1)) * all_taps / of_blocks;
  const double staged = static_cast<double>(positions() * chunks() * chunk * lane().phases() * passes()) * share;
  const auto results = static_cast<double>(results_of_tile() * columns * passes());
  const double alone = products * (0.9 * static_cast<double>(columns) + 11) + 0.27 * staged + 0.13 * results + 2700;
  return alone / (blocks_on_processor() > 1 ? 1.3 : 1);
}

int64_t warpgroup_convolution::phases() const {
  int64_t out = 1;
  for (const auto& d : dimensions)
    out *= d.phases();
  return out;
}

int64_t warpgroup_convolution::taps() const {
  int64_t out = 1;
  for (const auto& d : dimensions)
    out *= d.most_taps();
  return out;
}

int64_t warpgroup_convolution::outer() const {
  int64_t out = 1;
  for (std::size_t i = first_outer; i < dimensions.size(); ++i)
    out *= staged(i);
  return out;
}

expected<warpgroup_convolution> warpgroup_convolution_of(const kernel_body& body, const kernel_options& options) {
  CUDAL1_TRY(const convolution_parts parts, convolution_parts_of(body));
  warpgroup_convolution l{parts};
  if (l.in_channels < warpgroup_convolution::quad / 2 + 1)
    return fail(errc::unsupported, "of {} channels tensor cores would multiply zeros mostly", l.in_channels);
  if (l.has_rows(body) && l.out_channels > k_most_columns)
    return fail(errc::unsupported, "{} channels are more than the {} that a block reduces", l.out_channels,
                k_most_columns);
  set_tiles_of_passes(l);
  l.parts = options.product_way == convolution_by_tf32_pairs ? 2 : 1;
  const int64_t channels = options[kernel_tunable::channels], items = options[kernel_tunable::items],
                block = options[kernel_tunable::block];
  wanted_tile wanted;
  wanted.warpgroups = block == 128 || block == 256 ? block / 128 : 0;
  wanted.patches = items <= 4 ? items : 0;
  wanted.columns = channels >= 16 ? std::min(channels, k_most_columns) : 0;
  if (l.has_rows(body)) wanted.columns = l.out_channels <= 16 ? 16 : l.out_channels <= 32 ? 32 : 64;
  auto best = fastest(l, wanted);
  if (!best)
    return fail(errc::unsupported, "no tile of the convolution's input and its weights fits into shared memory");
  return std::move(*best);
}

}  // namespace cudal1
