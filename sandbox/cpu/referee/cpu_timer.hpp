// Times one fork: a fresh runner of the reference and a fresh one of the variant, in alternating calls.
#pragma once

#include "sandbox/cpu/referee/core_control.hpp"
#include "sandbox/cpu/referee/cpu_checker.hpp"

namespace cudal1 {

class call_timer {
 public:
  call_timer(draw_pool& pool, checker& outputs, const known_outputs& known, core_control& cores)
      : pool_(pool), outputs_(outputs), known_(known), cores_(cores) {}

  // Both runners are loaded. At most timing_draws() - 1 pairs: no process sees a draw twice, and the first draw of each
  // is for a call that is not timed. Reference and variant are on different draws in every pair, in random order.
  // A fault of the variant is in the report.
  expected<timing_report> time(runner_link& reference, runner_link& variant, const time_fork_request& request);

 private:
  struct turn {
    runner_link* runner;
    const draw* on;
    double microseconds = 0;
  };
  expected<void> run(runner_link& reference, runner_link& variant, const time_fork_request& request,
                     timing_report& report);
  expected<void> warm(runner_link& runner, const draw& d);
  expected<void> take(turn& t, timing_report& report);
  // The variant's output of the call just timed, against what it gave when it was checked on that draw.
  expected<void> verify(runner_link& variant, const draw& d, const std::string& key, bool in_full,
                        timing_report& report);

  draw_pool& pool_;
  checker& outputs_;
  const known_outputs& known_;
  core_control& cores_;
};

}  // namespace cudal1
