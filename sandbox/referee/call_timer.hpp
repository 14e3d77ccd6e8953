// Times one fork: the task's own program and the variant, both freshly loaded, in alternating calls.
#pragma once

#include "sandbox/referee/checker.hpp"

namespace cudal1 {

class call_timer {
 public:
  call_timer(draw_pool& pool, checker& outputs, const known_outputs& known)
      : pool_(pool), outputs_(outputs), known_(known) {}

  // Both programs must be freshly loaded. As many pairs as draw_pool::fork_of() says: no program gets a draw twice, and
  // the first draw of each is for an untimed call. In every pair, reference and variant run on
  // different draws, in random order. As many of these calls as fit are sent in one request. If the device has a clock,
  // device times follow at the end for the first pair, and for the second if this is the only fork; where the score is
  // by them, for all pairs, and then warm ones for the first one or two. A fault of the variant is in the report; a
  // fault of the reference is errc::infrastructure.
  expected<timing_report> time(program_runners& runners, const time_fork_request& request);

 private:
  // One call, and the sample that its time belongs to.
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
  // Compares the variant's outputs of these calls with those of its check on the same draws.
  expected<void> verify(program_runners& runners, std::span<const kept_call> calls, const std::string& key,
                        timing_report& report);

  draw_pool& pool_;
  checker& outputs_;
  const known_outputs& known_;
  int64_t fully_compared_ =
      0;  // index of the variant's timed output that is compared in full even if its bits are the same
};

}  // namespace cudal1
