// Scores computed again from the raw samples that the store keeps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/evaluation_records.hpp"
#include "sandbox/verify/rewards.hpp"

namespace cudal1::cli {

// recomputed: the samples give the stored score. differs: they do not. no_samples: a failed variant, or a verdict
// without samples.
BOOST_DEFINE_ENUM_CLASS(audit_finding, recomputed, differs, no_samples)

struct score_audit {
  std::string variant, task, experiment;
  int attempt = 1;
  audit_finding finding = audit_finding::no_samples;
  double stored = 0;  // score; 0 unless correct
  // Recomputed from the samples that give the stored score: all, or those of the confirmation or of the screening.
  double recomputed = 0;
  int first_fork = 0, last_fork = 0;
  int64_t pairs = 0, pairs_measured = 0;
  std::optional<double> cuda_l1;  // by CUDA-L1's rule; nothing where that rule throws the measurement away
  bucketed_score buckets;         // how it follows
};
BOOST_DESCRIBE_STRUCT(score_audit, (),
                      (variant, task, experiment, attempt, finding, stored, recomputed, first_fork, last_fork, pairs,
                       pairs_measured, cuda_l1, buckets))

// `v` has its details.
score_audit audit_score(const verdict& v, const std::string& experiment);

}  // namespace cudal1::cli
