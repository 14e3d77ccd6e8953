// Times one fork: the task's own program and the variant, both loaded anew, in alternating calls.
#pragma once

#include "sandbox/referee/checker.hpp"

namespace cudal1 {

class call_timer {
 public:
  call_timer(draw_pool& pool, checker& outputs, const known_outputs& known, const backend_traits& traits)
      : pool_(pool), outputs_(outputs), known_(known), traits_(traits) {}

  // Both programs are freshly loaded. At most draws_of_fork() - 1 pairs: no program sees a draw twice before its call
  // time was taken on it, and the first draw of each is for a call that is not timed. Reference and variant are on
  // different draws in every pair, in random order. As many of these calls as fit come one after the other, with
  // nothing said in between. Where the device has a clock, the first pair also gets device times, at the end, and the
  // second where this fork is the only one: once what is left of the calls before is wiped. A fault of the variant is
  // in the report, one of the reference is errc::infrastructure.
  expected<timing_report> time(program_runners& runners, const time_fork_request& request);

 private:
  // One call and whose time it takes.
  struct step {
    bool of_variant = false;
    std::size_t draw = 0;  // place in the shuffled order
    call_mode mode = call_mode::untimed;
    std::size_t sample = 0;
  };
  expected<void> run(program_runners& runners, const time_fork_request& request, timing_report& report);
  expected<void> run_steps(program_runners& runners, const std::vector<step>& steps, const std::vector<int>& order,
                           const std::string& key, timing_report& report);
  expected<planned_call> plan(const step& s, int ordinal, const std::string& key);
  // The variant's outputs of these calls, against what it gave when it was checked on their draws.
  expected<void> verify(program_runners& runners, std::span<const kept_call> calls, const std::string& key,
                        timing_report& report);

  draw_pool& pool_;
  checker& outputs_;
  const known_outputs& known_;
  const backend_traits& traits_;
  int64_t in_full_ = 0;  // which of the variant's timed outputs is compared in any case, counted from 0
};

}  // namespace cudal1
