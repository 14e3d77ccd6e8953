// The part of a referee that depends on the kind of device: memory for draws, running the task's own program on them,
// comparing outputs, and the runners of a request.
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
#include "sandbox/referee/expected_statistics.hpp"
#include "sandbox/referee/program_runners.hpp"
#include "sandbox/referee/reference_program.hpp"

namespace cudal1 {

// A draw's inputs or weights, in memory that a runner can map. They do not change while a reference to them exists.
struct drawn_tensors {
  virtual ~drawn_tensors() = default;
  int64_t bytes = 0;  // of memory
};

// The outputs of the task's own program on one draw, as shipped and in float64, flat.
struct expected_outputs {
  virtual ~expected_outputs() = default;
  int64_t bytes = 0;
  double reference_ms = 0;                      // that the program took as shipped, its setup included
  tolerances allowed;                           // of the plan that the statistics were computed for
  std::vector<expected_statistics> statistics;  // one per output
};

// How far eager is from the exact outputs of a draw where its inputs move by a unit in the last place, as
// moved_together has it: the largest distance, one for each element of each output. Empty for outputs that are not
// floating.
struct rounding_distances {
  std::vector<std::vector<float>> of_outputs;
  int64_t bytes() const;
};

struct draw {
  draw_request request;  // with its seed
  std::shared_ptr<const drawn_tensors> inputs;
  std::shared_ptr<const drawn_tensors> weights;  // shared by all `declared` draws of a pool; null if there are none
  std::shared_ptr<const expected_outputs> expected;
  std::shared_ptr<const rounding_distances> rounding;  // null until a comparison needs it
  int64_t bytes = 0;

  std::span<const float> rounding_of(std::size_t output) const {
    return rounding ? std::span<const float>(rounding->of_outputs[output]) : std::span<const float>();
  }
};

struct backend_traits {
  std::string kind;                 // of the tasks' texts: "cpu", "cuda"
  std::size_t tasks_kept = 8;       // open at the same time, if their draws are within the bound
  int fewest_timing_draws = 8;      // if 8 draws exceed half of the bound: as many as fit, but at least this many
  int renewals_of_other_kinds = 4;  // draws that are not used for timing are renewed at every n-th renewal
  bool has_device_clock = false;    // call_mode::device_timed
  // A repeated call may sum in another order: different bits of equal accuracy are noted, but are not a fault.
  bool order_of_sums_varies = false;
};

struct compared_call {
  std::vector<output_check> outputs;  // one for each output of the variant, without the name and the type problem
  fingerprint bits;                   // of the outputs compared
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

  // Allocates tensors of these types. fill() then fills them one by one, before seal().
  virtual expected<std::shared_ptr<drawn_tensors>> make_tensors(const std::vector<tensor_type>& types,
                                                                tensor_role role) = 0;
  virtual expected<void> fill(drawn_tensors& tensors, std::size_t index, const tensor_draw& how) = 0;
  virtual expected<void> seal(drawn_tensors&) { return {}; }
  // Frees memory of released draws until at most this much is spare.
  virtual void trim(int64_t most_spare_bytes) { (void)most_spare_bytes; }

  // The GPU on which the task's own program runs, or -1.
  virtual int interpreter_device() const { return -1; }
  // The memory that the tensors of the task's own program may take there, as far as it is known; 0: unknown.
  virtual int64_t reference_bytes() { return 0; }
  // The expected outputs of `d`, which has inputs and weights.
  virtual expected<std::shared_ptr<const expected_outputs>> compute(reference_program& program, const draw& d,
                                                                    const tolerances& allowed) = 0;

  virtual expected<std::shared_ptr<const rounding_distances>> find_rounding(reference_program& program,
                                                                            const draw& d) = 0;

  // ---- comparison ---------------------------------------------------------------------------------------------------

  // Compares the outputs of these calls of the last run() with their draws' expected outputs. `comparable`: for each
  // output, whether it has the type and shape of the expected one; the checks of others are left empty.
  virtual expected<std::vector<compared_call>> compare(const checked_program& variant, std::span<const kept_call> calls,
                                                       const std::vector<bool>& comparable) = 0;
  // Counts an output of a compared call again, with what `rounding` of its draw allows.
  virtual expected<void> allow_rounding(const checked_program& variant, const kept_call& call, std::size_t output,
                                        output_check& check) = 0;

  // ---- runners ------------------------------------------------------------------------------------------------------

  // Takes the runner for all following requests, if runners do not come with each request.
  virtual expected<void> attach(frame& f) {
    return fail(errc::corrupt, "this referee does not take a {} frame", enum_name(f.type));
  }
  // The runners for these programs, for one request: those in the frame, in that order, or the attached one.
  virtual expected<request_runners> runners_of(frame& f, std::span<const resident_program> programs,
                                               const call_limits& limits) = 0;
  // Waits until nothing of this process is in flight on the device.
  virtual expected<void> synchronise() { return {}; }
  // Returns all unused memory to the system and to the device.
  virtual void release_memory() = 0;
};

}  // namespace cudal1
