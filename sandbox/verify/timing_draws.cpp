#include "sandbox/verify/timing_draws.hpp"

#include <chrono>

namespace cudal1 {

expected<timing_report> check_and_time(device_session& session, const resident_variant& variant,
                                       const check_plan& gates, const timing_batch& batch,
                                       const verification_options& options) {
  const auto start = std::chrono::steady_clock::now();
  CUDAL1_TRY(const check_report checked, session.check_timing_draws(variant.program, variant.code, batch.plan, gates));
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  timing_report report;
  report.problem = checked.problem;
  if (const judgement j = judge_timing_draws(variant.of, gates, checked, options);
      !report.problem && j.result != outcome::correct)
    report.inconsistency = "on the draws of the timing pool: " + j.reason;
  if (!report.problem && report.inconsistency.empty()) {
    CUDAL1_TRY(report, session.time(variant.program, variant.code, batch.plan, batch.first_fork));
  }
  report.total_ms += spent.count();
  report.load_ms += checked.load_ms;
  return report;
}

}  // namespace cudal1
