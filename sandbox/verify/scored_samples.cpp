#include "sandbox/verify/scored_samples.hpp"

#include <algorithm>
#include <cmath>

#include "sandbox/verify/profiler.hpp"

namespace cudal1 {

namespace {

// Records keep their numbers exactly, and the estimate is the same function: more would be another computation.
constexpr double same = 1e-9;

bool gives(std::span<const timing_sample> samples, const measured_score& of) {
  const auto estimate = estimate_timing(samples, profiling_options{}.fork_bias, of.scored_by);
  return estimate.scored_by == of.scored_by && std::abs(estimate.score / of.score - 1) <= same;
}

}  // namespace

std::span<const timing_sample> samples_of_score(std::span<const timing_sample> all, const measured_score& of) {
  const bool positive =
      std::ranges::all_of(all, [](const timing_sample& s) { return s.reference_us > 0 && s.variant_us > 0; });
  if (all.empty() || !positive || !(of.score > 0)) return {};
  if (gives(all, of)) return all;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].fork == all[i - 1].fork) continue;
    if (gives(all.subspan(i), of)) return all.subspan(i);
    if (gives(all.first(i), of)) return all.first(i);
  }
  return {};
}

}  // namespace cudal1
