// Times a variant that was judged correct, only on draws on which it is correct, and checks one again.
#pragma once

#include "sandbox/device/session.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1 {

// A compiled variant of a task.
struct resident_variant {
  const task& of;
  const checked_program& program;
  const compiled_code& code;
};

struct timing_batch {
  timing_plan plan;
  int first_fork = 0;
};

// Lets the session check the variant on those draws of the timing pool on which it was not checked before, judges the
// result, then times the variant. A variant that fails there is not timed: the report's inconsistency has the reason.
// Errors: the session's.
expected<timing_report> check_and_time(device_session& session, const resident_variant& variant,
                                       const check_plan& gates, const timing_batch& batch,
                                       const verification_options& options);

// Checks a variant whose time is suspicious: all draws of the plan, three times, with seeds that it has not been
// checked on. Errors: the session's.
expected<judgement> check_on_fresh_draws(device_session& session, const resident_variant& variant, check_plan plan,
                                         const verification_options& options);

}  // namespace cudal1
