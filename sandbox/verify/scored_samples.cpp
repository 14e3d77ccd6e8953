#include "sandbox/verify/scored_samples.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/verify/profiler.hpp"

namespace cudal1 {

namespace {

// Records keep their numbers exactly, and the estimate is the same function: more would be another computation.
constexpr double same = 1e-9;

bool gives(std::span<const timing_sample> samples, double score) {
  return std::abs(estimate_timing(samples).score / score - 1) <= same;
}

}  // namespace

std::span<const timing_sample> samples_of_score(std::span<const timing_sample> all, double score) {
  const bool positive =
      std::ranges::all_of(all, [](const timing_sample& s) { return s.reference_us > 0 && s.variant_us > 0; });
  if (all.empty() || !positive || !(score > 0)) return {};
  if (gives(all, score)) return all;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].fork == all[i - 1].fork) continue;
    if (gives(all.subspan(i), score)) return all.subspan(i);
    if (gives(all.first(i), score)) return all.first(i);
  }
  return {};
}

}  // namespace cudal1
