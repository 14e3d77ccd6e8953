// The records of one evaluation: requests to a device and its replies. Plain data with one description
// (Boost.Describe), which frames, actors and the store use to serialise them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/program/types.hpp"

namespace cudal1 {

// The outcome of an evaluation. All but `quarantined` describe the behaviour of the variant.
BOOST_DEFINE_ENUM_CLASS(outcome,
                        correct,          // passed all gates, and was timed
                        invalid,          // the program breaks a rule of the format
                        compile_error,    // the compiler refused the source
                        compile_timeout,  // compilation took too long or too much memory
                        refused,          // the object code breaks a rule of the sandbox
                        wrong_answer,     // a correctness gate failed
                        unexplained,      // correct, but so is a null model of the task (null_models.hpp)
                        wrote_input,      // it wrote to an input or a weight
                        out_of_bounds,    // it wrote outside its tensors (guard) or accessed unmapped memory
                        crash,            // another fatal signal: arithmetic, illegal instruction, abort
                        forbidden,        // it made a system call that the sandbox denies
                        hang,             // a call exceeded its timeout
                        out_of_memory,    // it exceeded the memory limit
                        inconsistent,     // correct when checked, but gave different bits when timed or called again
                        unmeasurable,     // correct, but its time could not be measured to the required precision
                        quarantined)      // its worker process was lost twice

// A fault of the code in a runner.
struct fault {
  outcome kind = outcome::crash;
  std::string reason;  // "SIGSEGV at 0x...: a write into input \"a\", in step 2 (launch row_scale)"
};
BOOST_DESCRIBE_STRUCT(fault, (), (kind, reason))

// How a draw of the verification pool is made from the task's input specification (sandbox/verify/README.md).
BOOST_DEFINE_ENUM_CLASS(draw_kind,
                        declared,         // the task's own distribution and, for weights, its own weights
                        standard_normal,  // N(0,1)
                        wide_normal,      // 10 N(0,1)
                        around_one,       // 1 + 0.01 N(0,1)
                        heavy_tails,      // Student's t with two degrees of freedom
                        peaked,           // N(0,1) with one element of each row raised by 20
                        offset_rows,      // N(0,1) with a separate scale and offset for each row
                        products,         // near 1: exp(0.05 N(0,1)) with random signs where the domain allows
                        outliers,         // declared, with a few elements of each tensor far outside that distribution
                        outlier_above,    // declared, with one element of each tensor far above, at a random place
                        outlier_below,    // declared, with one element of each tensor far below
                        small_integers,   // -2 to 2, so that sums of products are exact in any order
                        impulses)         // one input zero except at edges and tile borders, the others small integers

struct draw_request {
  draw_kind kind = draw_kind::declared;
  uint64_t seed = 0;  // 0: the referee takes one from the operating system and reports it
};
BOOST_DESCRIBE_STRUCT(draw_request, (), (kind, seed))

// ---- checking -------------------------------------------------------------------------------------------------------

struct tolerance {
  double absolute = 1e-4, relative = 1e-4;
};
BOOST_DESCRIBE_STRUCT(tolerance, (), (absolute, relative))

struct check_plan {
  std::vector<draw_request> draws;  // in this order; a draw whose seed the referee already holds is not made again
  tolerance close;                  // gate 2
  bool repeat_first = true;         // A/B/A: the first draw again at the end must give the same bits
  double call_limit_ms = 2000;      // timeout of a call; a longer one is a hang
  int64_t memory_limit_bytes = int64_t{4} << 30;  // of the runner's tensors
  tolerance close_loose{1e-2, 1e-2};              // gate 2 for half types, and where eager itself is outside `close`
  // Compares each call's outputs with the expected outputs of the previous draw: a null model (null_models.hpp).
  bool against_previous = false;
  // Declared draws are held against eager alone, without regard to its own error: as KernelBench's evaluator does.
  bool eager_alone = false;
  // On declared draws, too, absolute tolerances grow with the output's size, as on the other kinds.
  bool sized = false;
};
BOOST_DESCRIBE_STRUCT(check_plan, (),
                      (draws, close, repeat_first, call_limit_ms, memory_limit_bytes, close_loose, against_previous,
                       eager_alone, sized))

// One output of the variant on one draw, compared with the referee's expected outputs.
struct output_check {
  std::string name;
  std::string type_problem;  // gate 1: dtype, shape, strides, aliasing; "" if correct
  int64_t elements = 0;
  int64_t mask_mismatches = 0;    // elements whose finite/NaN/inf class differs from the reference's
  tolerance within;               // gate 2: the tolerance on this draw (expected_statistics.hpp)
  int64_t outside = 0;            // elements outside that tolerance of both float32 eager and exact
  int64_t reference_outside = 0;  // elements where exact is outside the close tolerance of float32 eager
  double max_absolute = 0;        // largest |variant - eager|
  double error = 0;               // gate 3: RMS(variant - float64) / RMS(float64)
  double reference_error = 0;     // the same for float32 eager
  double signal_error = 0;        // gate 4: RMS(variant - float64) / standard deviation of float64
  double reference_signal_error = 0;
  // Flat index of the element with the largest excess over its tolerance, and the two values there; of the first mask
  // mismatch if there is one.
  int64_t worst_index = -1;
  double worst_value = 0, worst_expected = 0;
  double max_excess = 0;                // largest deviation minus tolerance; negative if all are within
  int64_t reference_outside_loose = 0;  // reference_outside for the loose tolerance
  // The errors of float32 eager without TensorFloat-32; equal to reference_* where eager as shipped does not use it.
  double strict_error = 0, strict_signal_error = 0;
  int64_t strict_outside = 0;  // elements of strict eager outside the close tolerance of eager as shipped
  bool loose = false;          // `within` is the loose tolerance
  double expected_mean = 0;    // of the exact output
  int64_t outside_eager = 0;  // elements that KernelBench's evaluator would refuse: beyond its tolerance of eager alone
};
BOOST_DESCRIBE_STRUCT(output_check, (),
                      (name, type_problem, elements, mask_mismatches, within, outside, reference_outside, max_absolute,
                       error, reference_error, signal_error, reference_signal_error, worst_index, worst_value,
                       worst_expected, max_excess, reference_outside_loose, strict_error, strict_signal_error,
                       strict_outside, loose, expected_mean, outside_eager))

struct draw_check {
  draw_request draw;  // with the seed that was used
  std::vector<output_check> outputs;
};
BOOST_DESCRIBE_STRUCT(draw_check, (), (draw, outputs))

struct check_report {
  std::optional<fault> problem;    // the fault that ended the check early
  std::vector<draw_check> draws;   // those completed
  bool repeatable = true;          // A/B/A
  std::vector<std::string> notes;  // deviations from the requested execution: "graph: input \"x\" is copied"
  double setup_ms = 0;             // the program's setup steps
  double load_ms = 0;              // fork to ready
  double total_ms = 0;
};
BOOST_DESCRIBE_STRUCT(check_report, (), (problem, draws, repeatable, notes, setup_ms, load_ms, total_ms))

// ---- timing ---------------------------------------------------------------------------------------------------------

// Which times a score is the ratio of. A part of a larger task is scored by its device time, since its launches are the
// whole's; everything else by its calls, and a part, too, where the device has no clock.
BOOST_DEFINE_ENUM_CLASS(score_clock, call, device)

struct timing_plan {
  int forks = 3;  // pairs of fresh processes, one for the reference and one for the variant
  int pairs = 5;  // timed pairs of calls in each fork; no process gets a draw twice
  double call_limit_ms = 2000;
  int64_t memory_limit_bytes = int64_t{4} << 30;
  score_clock scored_by = score_clock::call;  // device: each pair's device times, too, and warm ones of some
};
BOOST_DESCRIBE_STRUCT(timing_plan, (), (forks, pairs, call_limit_ms, memory_limit_bytes, scored_by))

// One call each, never on the same draw, in microseconds. Call time: host clock around the call and its
// synchronisation. Device time: between two events on the device, without gaps caused by the host; 0 where the device
// has no such clock. Warm time: device time with the inputs, but not the weights, in the cache, as far as they fit: as
// a task's earlier steps leave them; 0 if it was not asked for.
struct timing_sample {
  int fork = 0;  // index of the pair of processes (on a GPU: of loads), counted over the whole evaluation
  bool variant_first = false;
  double reference_us = 0, variant_us = 0;
  double reference_device_us = 0, variant_device_us = 0;
  double reference_warm_us = 0, variant_warm_us = 0;
};
BOOST_DESCRIBE_STRUCT(timing_sample, (),
                      (fork, variant_first, reference_us, variant_us, reference_device_us, variant_device_us,
                       reference_warm_us, variant_warm_us))

// A process that used the timing core, and for how long.
struct core_user {
  int pid = 0;
  std::string name;
  double ms = 0;
};
BOOST_DESCRIBE_STRUCT(core_user, (), (pid, name, ms))

// How the timing core was used while calls were timed there; nothing on a GPU.
struct core_sharing {
  int core = -1;
  double watched_ms = 0;
  double others_ms = 0;          // by processes that are not the session's
  double stolen_ms = 0;          // by the hypervisor, for other guests
  std::vector<core_user> users;  // the others that used it most
};
BOOST_DESCRIBE_STRUCT(core_sharing, (), (core, watched_ms, others_ms, stolen_ms, users))

struct timing_report {
  std::optional<fault> problem;
  std::vector<timing_sample> samples;
  int64_t outputs_fingerprinted = 0;  // timed outputs of the variant that were hashed
  int64_t outputs_compared = 0;       // of these, compared in full with the expected outputs
  std::string inconsistency;          // "" or the difference between a checked and a timed output
  int64_t dropped_samples = 0;        // taken while the device was throttled or shared
  std::vector<std::string> notes;     // why samples were dropped, and other remarks about them
  double total_ms = 0, flush_ms = 0, load_ms = 0;
  double read_gb_per_s = 0;  // `cpu`: highest read bandwidth that the referee measured on the timing core
  double waited_ms = 0;      // for a turn on the timing core; not part of total_ms
  core_sharing sharing;
  int64_t reference_parts = 1;  // of the batch, in which the task's own program ran (batch_parts.hpp)
};
BOOST_DESCRIBE_STRUCT(timing_report, (),
                      (problem, samples, outputs_fingerprinted, outputs_compared, inconsistency, dropped_samples, notes,
                       total_ms, flush_ms, load_ms, read_gb_per_s, waited_ms, sharing, reference_parts))

// ---- the verdict ----------------------------------------------------------------------------------------------------

struct interval {
  double low = 0, high = 0;
};
BOOST_DESCRIBE_STRUCT(interval, (), (low, high))

// The estimate from the samples.
struct measured_score {
  double score = 0;                                       // median of the paired ratios reference / variant
  interval score_interval;                                // 95%, over forks and pairs (estimate_timing)
  double reference_us = 0, variant_us = 0;                // medians of call time
  double reference_device_us = 0, variant_device_us = 0;  // medians of device time; 0 if it was not measured
  double reference_warm_us = 0, variant_warm_us = 0;      // the same of warm times
  score_clock scored_by = score_clock::call;
};
BOOST_DESCRIBE_STRUCT(measured_score, (),
                      (score, score_interval, scored_by, reference_us, variant_us, reference_device_us,
                       variant_device_us, reference_warm_us, variant_warm_us))

struct timing_estimate : measured_score {
  int pairs = 0, forks = 0;  // that it is computed from
};
BOOST_DESCRIBE_STRUCT(timing_estimate, (),
                      (score, score_interval, scored_by, reference_us, variant_us, reference_device_us,
                       variant_device_us, reference_warm_us, variant_warm_us, pairs, forks))

struct gate_result {
  std::string gate;  // "1 form", "2 close", "3 error", "5 draws", ...
  bool passed = false;
  std::string reason;  // with numbers, also if it passed
};
BOOST_DESCRIBE_STRUCT(gate_result, (), (gate, passed, reason))

// The gate of what follows a suspicion: a check on fresh draws. Its reason begins with the suspicion.
inline constexpr const char* deep_check_gate = "deep check";

// What a measurement depends on.
struct environment {
  std::string device;          // "cpu", "cuda:0"
  std::string model;           // processor or GPU
  std::string details;         // flags, caches, threads, libraries, kernel, driver; one line
  std::string id;              // hash of the above
  std::string libraries = {};  // their versions, as in the details; none in records of an older cudal1
};
BOOST_DESCRIBE_STRUCT(environment, (), (device, model, details, id, libraries))

// The kind of device that replays the stored verdicts of another kind (store/replay) is named after it: "replay-cpu".
inline constexpr std::string_view replay_prefix = "replay-";
// Whether what an environment's verdicts say was replayed, not measured.
inline bool is_replayed(const environment& e) {
  return e.device.starts_with(replay_prefix);
}
// The model of such an environment is the recorded one after these words; recorded_model() takes them away.
inline constexpr std::string_view replayed_model = "replay of ";
inline std::string recorded_model(const std::string& model) {
  return model.starts_with(replayed_model) ? model.substr(replayed_model.size()) : model;
}

// The resources of one compiled kernel.
struct kernel_resources {
  std::string kernel;
  int64_t registers = 0;            // per thread
  int64_t static_shared_bytes = 0;  // per block
  int64_t stack_bytes = 0;          // local memory per thread
  int64_t spill_store_bytes = 0, spill_load_bytes = 0;
};
BOOST_DESCRIBE_STRUCT(kernel_resources, (),
                      (kernel, registers, static_shared_bytes, stack_bytes, spill_store_bytes, spill_load_bytes))

struct verdict : measured_score {  // the score is 0 unless correct
  std::string task;                // id
  std::string variant;             // program id
  int attempt = 1;
  outcome result = outcome::correct;
  std::string reason;  // one sentence for users
  std::vector<gate_result> gates;
  std::vector<draw_check> checks;          // raw
  std::vector<timing_sample> samples;      // raw
  double floor_us = 0;                     // estimated least time of this task on this device (roofline); 0: unknown
  bool confirmed = false;                  // measured again with fresh pairs: may become the best
  std::map<std::string, double> stage_ms;  // duration of each stage of the evaluation
  std::string environment_id;
  std::string compiler_log;  // truncated
  std::vector<kernel_resources> resources;
  std::vector<std::string> notes;  // of check and timing
  int64_t time_unix_ms = 0;
  std::string suspicion;  // why it was checked more deeply; "" if it was not
  std::string
      reused_from;  // experiment whose verdict this is, of the same class of environments; "" if it was measured
  std::string ill_conditioned;  // why the task is (conditioning.hpp); "" if the check did not show it
  // In how many parts of the batch the task's own program was timed; 1: as a whole. More where it needs more memory
  // than a runner has: what PyTorch takes for it is not known.
  int64_t reference_parts = 1;
  // On the declared draws no output was further from eager's alone than KernelBench's evaluator allows (1e-4, half
  // types 1e-2): an export of it is likely to be accepted there. False in verdicts of an older cudal1.
  bool near_eager = false;
};
BOOST_DESCRIBE_STRUCT(verdict, (),
                      (task, variant, attempt, result, reason, gates, checks, samples, score, score_interval, scored_by,
                       reference_us, variant_us, reference_device_us, variant_device_us, reference_warm_us,
                       variant_warm_us, floor_us, confirmed, stage_ms, environment_id, compiler_log, resources, notes,
                       time_unix_ms, suspicion, reused_from, ill_conditioned, reference_parts, near_eager))

}  // namespace cudal1
