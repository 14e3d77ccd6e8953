#include "tools/cli/report/score_audit.hpp"

#include <algorithm>
#include <span>

#include "sandbox/verify/profiler.hpp"
#include "sandbox/verify/scored_samples.hpp"

namespace cudal1::cli {

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
  a.buckets = cuda_l1_score(v.samples);
  a.cuda_l1 = a.buckets.score;
  auto used = samples_of_score(v.samples, v);
  if (!used.empty()) a.finding = audit_finding::recomputed;
  if (used.empty()) used = v.samples;
  a.recomputed = estimate_timing(used, profiling_options{}.fork_bias, v.scored_by).score;
  a.first_fork = used.front().fork;
  a.last_fork = used.back().fork;
  a.pairs = static_cast<int64_t>(used.size());
  return a;
}

}  // namespace cudal1::cli
