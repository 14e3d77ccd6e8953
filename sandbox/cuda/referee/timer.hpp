// Times one fork on a GPU: reference and variant, both loaded anew in one runner, in alternating calls.
#pragma once

#include "sandbox/cuda/referee/checker.hpp"

namespace cudal1 {

class gpu_call_timer {
 public:
  gpu_call_timer(gpu_draw_pool& pool, gpu_checker& outputs, const known_outputs& known)
      : pool_(pool), outputs_(outputs), known_(known) {}

  // Both programs are freshly loaded. At most most_timing_draws - 1 pairs: no program sees a draw twice before its call
  // time was taken on it, and the first draw of each is for a call that is not timed. Reference and variant are on
  // different draws in every pair, in random order. The first pair also gets device times, at the end, and the second
  // where this fork is the only one. A fault of the variant is in the report, one of the reference is
  // errc::infrastructure.
  expected<timing_report> time(gpu_runner_link& runner, const time_fork_request& request);

 private:
  expected<void> run(gpu_runner_link& runner, const time_fork_request& request, timing_report& report);
  // Microseconds of one call; the variant's outputs are verified.
  expected<double> take(gpu_runner_link& runner, resident_program which, const gpu_draw& d, call_mode mode,
                        const std::string& key, timing_report& report);
  // The variant's outputs of the call just timed, against what it gave when it was checked on that draw.
  expected<void> verify(gpu_runner_link& runner, const gpu_call_result& called, const gpu_draw& d,
                        const std::string& key, timing_report& report);

  gpu_draw_pool& pool_;
  gpu_checker& outputs_;
  const known_outputs& known_;
};

}  // namespace cudal1
