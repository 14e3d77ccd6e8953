#include "sandbox/verify/timing_draws.hpp"

#include <random>
#include <utility>

namespace cudal1 {

expected<timing_report> check_and_time(device_session& session, const resident_variant& variant,
                                       const check_plan& gates, const timing_batch& batch,
                                       const verification_options& options) {
  CUDAL1_TRY(const check_report checked, session.check_timing_draws(variant.program, variant.code, batch.plan, gates));
  timing_report report;
  report.problem = checked.problem;
  if (const judgement j = judge_timing_draws(variant.of, gates, checked, options);
      !report.problem && j.result != outcome::correct)
    report.inconsistency = "on the draws of the timing pool: " + j.reason;
  if (!report.problem && report.inconsistency.empty()) {
    CUDAL1_TRY(report, session.time(variant.program, variant.code, batch.plan, batch.first_fork));
  }
  report.total_ms += checked.total_ms;
  report.load_ms += checked.load_ms;
  return report;
}

expected<judgement> check_on_fresh_draws(device_session& session, const resident_variant& variant, check_plan plan,
                                         const verification_options& options) {
  constexpr int rounds = 3;
  std::random_device system;
  const std::vector<draw_request> draws = std::exchange(plan.draws, {});
  for (int round = 0; round < rounds; ++round)
    for (draw_request d : draws) {
      d.seed = uint64_t{system()} << 32 | system() | 1;
      plan.draws.push_back(d);
    }
  CUDAL1_TRY(const check_report report, session.check(variant.program, variant.code, plan));
  return judge(variant.of, plan, report, options);
}

}  // namespace cudal1
