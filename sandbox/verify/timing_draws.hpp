// Timing a variant that was judged correct, and only on draws that it is right on.
#pragma once

#include "sandbox/device/session.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1 {

// A variant of a task, compiled.
struct resident_variant {
  const task& of;
  const checked_program& program;
  const compiled_code& code;
};

struct timing_batch {
  timing_plan plan;
  int first_fork = 0;
};

// Has the session compare the variant on those draws of the timing pool that it was not compared on before, and judges
// them; then times it. A variant that is wrong there is not timed: the report's inconsistency says how it was wrong.
// Errors: the session's.
expected<timing_report> time_judged(device_session& session, const resident_variant& variant, const check_plan& gates,
                                    const timing_batch& batch, const verification_options& options);

}  // namespace cudal1
