// Times one fork on a GPU: reference and variant, both loaded anew in one runner, in alternating calls.
#pragma once

#include "sandbox/cuda/referee/gpu_checker.hpp"

namespace cudal1 {

class gpu_call_timer {
 public:
  gpu_call_timer(gpu_draw_pool& pool, gpu_checker& outputs, const known_outputs& known)
      : pool_(pool), outputs_(outputs), known_(known) {}

  // Both programs are freshly loaded. At most most_timing_draws - 1 pairs: no program sees a draw twice before its call
  // time was taken on it, and the first draw of each is for a call that is not timed. Reference and variant are on
  // different draws in every pair, in random order. All of these calls come one after the other, with nothing said in
  // between. The first pair also gets device times, at the end, and the second where this fork is the only one: once
  // what is left of the calls before is wiped. A fault of the variant is in the report, one of the reference is
  // errc::infrastructure.
  expected<timing_report> time(gpu_runner_link& runner, const time_fork_request& request);

 private:
  // One call and whose time it takes.
  struct step {
    bool of_variant = false;
    std::size_t draw = 0;  // place in the shuffled order
    call_mode mode = call_mode::untimed;
    std::size_t sample = 0;
  };
  expected<void> run(gpu_runner_link& runner, const time_fork_request& request, timing_report& report);
  expected<void> run_steps(gpu_runner_link& runner, const std::vector<step>& steps, const std::vector<int>& order,
                           const std::string& key, timing_report& report);
  // The variant's outputs of these calls, against what it gave when it was checked on their draws.
  expected<void> verify(gpu_runner_link& runner, std::span<const kept_call> calls, const std::string& key,
                        timing_report& report);

  gpu_draw_pool& pool_;
  gpu_checker& outputs_;
  const known_outputs& known_;
  int64_t in_full_ = 0;  // which of the variant's timed outputs is compared in any case, counted from 0
};

}  // namespace cudal1
