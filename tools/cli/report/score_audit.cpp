#include "tools/cli/report/score_audit.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "sandbox/verify/auditor.hpp"
#include "sandbox/verify/profiler.hpp"

namespace cudal1::cli {

namespace {

// Records keep their numbers exactly, and the estimate is the same function: more would be another computation.
constexpr double same = 1e-9;

bool gives(std::span<const timing_sample> samples, const verdict& v) {
  return std::abs(estimate_timing(samples).score / v.score - 1) <= same;
}

// A score is that of all samples, of the last forks (a confirmation counts fresh pairs only), or of the first ones (a
// screening whose confirmation found no new best).
std::span<const timing_sample> samples_of_score(std::span<const timing_sample> all, const verdict& v) {
  if (gives(all, v)) return all;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i].fork == all[i - 1].fork) continue;
    if (gives(all.subspan(i), v)) return all.subspan(i);
    if (gives(all.first(i), v)) return all.first(i);
  }
  return {};
}

}  // namespace

score_audit audit_score(const verdict& v, const std::string& experiment) {
  score_audit a;
  a.variant = v.variant;
  a.task = v.task;
  a.experiment = experiment;
  a.attempt = v.attempt;
  a.stored = v.score;
  a.pairs_measured = static_cast<int64_t>(v.samples.size());
  const bool positive =
      std::ranges::all_of(v.samples, [](const timing_sample& s) { return s.reference_us > 0 && s.variant_us > 0; });
  if (v.samples.empty() || !(v.score > 0)) return a;
  a.finding = audit_finding::differs;
  if (!positive) return a;
  a.cuda_l1 = cuda_l1_score(v.samples);
  auto used = samples_of_score(v.samples, v);
  if (!used.empty()) a.finding = audit_finding::recomputed;
  if (used.empty()) used = v.samples;
  a.recomputed = estimate_timing(used).score;
  a.first_fork = used.front().fork;
  a.last_fork = used.back().fork;
  a.pairs = static_cast<int64_t>(used.size());
  return a;
}

}  // namespace cudal1::cli
