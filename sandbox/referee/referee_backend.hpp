// What a kind of device gives its referee: memory for draws, the task's own program computed on them, the comparison
// of outputs there, and the runners of a request. All else of a referee is the same for every device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sandbox/isolation/frame.hpp"
#include "sandbox/referee/draws.hpp"
#include "sandbox/referee/program_runners.hpp"
#include "sandbox/referee/reference_program.hpp"

namespace cudal1 {

struct tolerances {
  tolerance close, loose{1e-2, 1e-2};
  bool operator==(const tolerances& o) const {
    return close.absolute == o.close.absolute && close.relative == o.close.relative &&
           loose.absolute == o.loose.absolute && loose.relative == o.loose.relative;
  }
};

// A draw's inputs or weights, in memory that a runner can map. They stay as they are as long as somebody holds them.
struct drawn_tensors {
  virtual ~drawn_tensors() = default;
  int64_t bytes = 0;  // of memory
};

// What the task's own program gives on one draw, as shipped and in float64, flat.
struct expected_outputs {
  virtual ~expected_outputs() = default;
  int64_t bytes = 0;
  std::optional<tolerances> allowed;  // those that a part of this was computed for; none: it serves for all
};

struct draw {
  draw_request request;  // with its seed
  std::shared_ptr<const drawn_tensors> inputs;
  std::shared_ptr<const drawn_tensors> weights;  // the same for all `declared` draws of a pool; null where none
  std::shared_ptr<const expected_outputs> expected;
  int64_t bytes = 0;
};

// Every value has one owner: the backend that says it.
struct backend_traits {
  std::string kind;                 // of the tasks' texts: "cpu", "cuda"
  std::size_t tasks_kept = 8;       // open at the same time, if their draws are within the bound
  int fewest_timing_draws = 8;      // where 8 draws take more than half of the bound, as many as fit but at least these
  int renewals_of_other_kinds = 1;  // kinds of draws that nothing is timed on are renewed with each so many renewals
  bool has_device_clock = false;    // call_mode::device_timed
  // The same call again may sum in another order: other bits that are as good an output are noted, and no fault.
  bool order_of_sums_varies = false;
};

struct compared_call {
  std::vector<output_check> outputs;  // one for each output of the variant; all but the name and the type problem
  fingerprint bits;                   // of what was compared
};

struct request_runners {
  std::shared_ptr<program_runners> runners;
  int object = -1;  // of the variant; the frame owns it
};

// Not thread-safe.
class referee_backend {
 public:
  virtual ~referee_backend() = default;
  virtual const backend_traits& traits() const = 0;

  // ---- draws --------------------------------------------------------------------------------------------------------

  // Memory for tensors of these types, which fill() fills one by one before seal().
  virtual expected<std::shared_ptr<drawn_tensors>> make_tensors(const std::vector<tensor_type>& types,
                                                                tensor_role role) = 0;
  virtual expected<void> fill(drawn_tensors& tensors, std::size_t index, const tensor_draw& how) = 0;
  virtual expected<void> seal(drawn_tensors&) { return {}; }
  // Memory of draws that nobody holds any more goes back until no more is left than so much.
  virtual void trim(int64_t most_spare_bytes) { (void)most_spare_bytes; }

  // The GPU that the task's own program is computed on, or -1.
  virtual int interpreter_device() const { return -1; }
  // `d` has inputs and weights.
  virtual expected<std::shared_ptr<const expected_outputs>> compute(reference_program& program, const draw& d,
                                                                    const tolerances& allowed) = 0;

  // ---- comparison ---------------------------------------------------------------------------------------------------

  // The outputs of those calls of the last run() against their draws' expected outputs. `comparable`: by output,
  // whether it has type and shape of the expected one; the others are left empty.
  virtual expected<std::vector<compared_call>> compare(const checked_program& variant, std::span<const kept_call> calls,
                                                       const std::vector<bool>& comparable,
                                                       const tolerances& allowed) = 0;

  // ---- runners ------------------------------------------------------------------------------------------------------

  // Takes the runner that the next requests are served with, where it does not come with each request.
  virtual expected<void> attach(frame& f) {
    return fail(errc::corrupt, "this referee does not take a {} frame", enum_name(f.type));
  }
  // The runners for these programs, for one request: those that came with the frame, in that order, or the attached.
  virtual expected<request_runners> runners_of(frame& f, std::span<const resident_program> programs,
                                               const call_limits& limits) = 0;
  // Nothing of this process is in flight on the device afterwards.
  virtual expected<void> synchronise() { return {}; }
  // Everything that nobody holds any more goes back to the system and to the device.
  virtual void release_memory() = 0;
};

}  // namespace cudal1
