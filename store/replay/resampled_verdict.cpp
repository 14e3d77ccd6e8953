#include "store/replay/resampled_verdict.hpp"

#include <algorithm>
#include <map>

#include "sandbox/verify/profiler.hpp"
#include "sandbox/verify/scored_samples.hpp"
#include "store/exemplars.hpp"

namespace cudal1 {

std::vector<timing_sample> resample(std::span<const timing_sample> samples, uint64_t& random) {
  std::map<int, std::vector<const timing_sample*>> by_fork;
  for (const auto& s : samples)
    by_fork[s.fork].push_back(&s);
  std::vector<const std::vector<const timing_sample*>*> forks;
  for (const auto& [number, pairs] : by_fork)
    forks.push_back(&pairs);
  std::vector<timing_sample> drawn;
  drawn.reserve(samples.size());
  for (std::size_t f = 0; f < forks.size(); ++f) {
    const auto& pairs = *forks[draw_below(forks.size(), random)];
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      drawn.push_back(*pairs[draw_below(pairs.size(), random)]);
      drawn.back().fork = static_cast<int>(f);
    }
  }
  return drawn;
}

void draw_times(verdict& v, double usual_bias, uint64_t& random) {
  const bool positive =
      std::ranges::all_of(v.samples, [](const auto& s) { return s.reference_us > 0 && s.variant_us > 0; });
  if (v.result != outcome::correct || v.samples.empty() || !positive) return;
  auto scored = samples_of_score(v.samples, v);
  if (scored.empty()) scored = v.samples;
  v.samples = resample(scored, random);
  static_cast<measured_score&>(v) = estimate_timing(v.samples, usual_bias, v.scored_by);
}

}  // namespace cudal1
