// Checks a variant in its runner, and remembers its outputs on the draws on which it will be timed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sandbox/referee/draw_pool.hpp"
#include "sandbox/referee/known_outputs.hpp"
#include "sandbox/referee/referee_messages.hpp"

namespace cudal1 {

class checker {
 public:
  checker(draw_pool& pool, known_outputs& known, referee_backend& backend)
      : pool_(pool), known_(known), backend_(backend) {}

  // The variant must be loaded. Runs the plan's draws, then the first again at other addresses. A fault of the variant
  // is in the report; runners.lost() says that its process ended without a record of the fault.
  expected<check_report> check(program_runners& runners, const std::string& variant, const check_plan& plan);
  // Checks the draws on which a fork of the plan is timed and on which this variant has not been checked.
  expected<check_report> check_pool(program_runners& runners, const check_pool_request& request);
  int unchecked(const check_pool_request& request) { return static_cast<int>(unchecked_draws(request).size()); }

  // Compares each call's outputs with the expected outputs of its draw; call before the runner's next request. A fault
  // of the variant if outputs changed since their call: a later call wrote there.
  expected<std::vector<std::vector<output_check>>> compare(program_runners& runners, std::span<const kept_call> calls);
  // Runs as many calls at a time as there is room for their draws and outputs, and passes each part's records to
  // `examine`, which returns whether to continue.
  using planner = std::function<expected<planned_call>(std::size_t)>;
  using examiner = std::function<expected<bool>(std::span<const planned_call>, std::span<const call_record>)>;
  expected<void> run_in_parts(program_runners& runners, std::size_t calls, const planner& plan,
                              const examiner& examine);
  // The error in `ran`, unless it is a fault of the variant that `runners` recorded.
  static expected<void> ours(const program_runners& runners, const expected<void>& ran);

 private:
  std::vector<draw_request> unchecked_draws(const check_pool_request& request);
  // Elements that only rounding takes out of the tolerance do not count as outside, and are noted.
  expected<void> allow_rounding(const checked_program& variant, const kept_call& call,
                                std::vector<output_check>& checks);
  std::vector<bool> comparable_outputs(const checked_program& variant) const;
  std::vector<output_check> with_form(const checked_program& variant, const call_record& record,
                                      std::vector<output_check> checks) const;
  expected<void> repeat(program_runners& runners, std::shared_ptr<const draw> first, check_report& report);
  expected<void> run(program_runners& runners, const std::string& variant, const check_plan& plan,
                     check_report& report);
  void remember(const std::string& variant, const planned_call& call, const call_record& record,
                const std::vector<output_check>& checks);

  draw_pool& pool_;
  known_outputs& known_;
  referee_backend& backend_;
  std::optional<known_output> first_;
  std::vector<std::string> notes_;  // of the check in progress
};

}  // namespace cudal1
