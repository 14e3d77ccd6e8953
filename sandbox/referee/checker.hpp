// Checks a variant in its runner, and remembers what its outputs were on the draws that it is timed on.
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

  // The variant is loaded. The plan's draws, then the first again at other addresses. A fault of the variant is in the
  // report; runners.lost() says that it went without a record.
  expected<check_report> check(program_runners& runners, const std::string& variant, const check_plan& plan);
  // Those draws that a fork of the plan is timed on and this variant has not been checked on.
  expected<check_report> check_pool(program_runners& runners, const check_pool_request& request);
  int unchecked(const check_pool_request& request) { return static_cast<int>(unchecked_draws(request).size()); }

  // Each call's outputs against its draw's expected ones, before the runner's next request. A fault of the variant
  // where a copy is not what its call gave: a later call wrote there.
  expected<std::vector<std::vector<output_check>>> compare(program_runners& runners, std::span<const kept_call> calls);
  // Runs so many calls at a time as there is room for their draws and outputs, and hands each part's records to
  // `examine`, which says whether to go on.
  using planner = std::function<expected<planned_call>(std::size_t)>;
  using examiner = std::function<expected<bool>(std::span<const planned_call>, std::span<const call_record>)>;
  expected<void> run_in_parts(program_runners& runners, std::size_t calls, const planner& plan,
                              const examiner& examine);
  // What a part of a report says that `ran` ended with: nothing where that is a fault which `runners` have on record.
  static expected<void> ours(const program_runners& runners, const expected<void>& ran);

 private:
  std::vector<draw_request> unchecked_draws(const check_pool_request& request);
  std::vector<bool> comparable_outputs(const checked_program& variant) const;
  std::vector<output_check> with_form(const checked_program& variant, const call_record& record,
                                      std::vector<output_check> checks) const;
  expected<void> repeat(program_runners& runners, std::shared_ptr<const draw> first, check_report& report);
  expected<void> run(program_runners& runners, const std::string& variant, const check_plan& plan,
                     check_report& report);
  void remember(const std::string& variant, const planned_call& call, const call_record& record,
                std::vector<output_check> checks, check_report& report);

  draw_pool& pool_;
  known_outputs& known_;
  referee_backend& backend_;
  std::optional<known_output> first_;
};

}  // namespace cudal1
