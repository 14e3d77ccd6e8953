#include "tools/serve/verdict_document.hpp"

#include <string_view>

#include "config/base/describe.hpp"

namespace cudal1::serve {

namespace {

struct gate_hint {
  std::string_view gate, text;
};

constexpr gate_hint gate_hints[] = {
    {"1 form", "Give every output exactly the dtype, shape and strides that the task declares, each its own memory."},
    {"2 close",
     "Compute the same function: compare the index in the reason with your indexing, the last tile and the tail of a "
     "row "
     "first; then constants such as epsilons, and masks."},
    {"3 error",
     "Lose less precision: accumulate in float32 or wider, subtract the maximum before exp, sum in pairs, and avoid "
     "float16 and TF32 where the reason shows a larger error than eager's."},
    {"4 signal",
     "The result misses how the output varies with its inputs: every input must be read, and nothing be replaced by "
     "its "
     "mean or by a constant."},
    {"5 draws",
     "It is right for some inputs only. Do not rely on values: other distributions, signs, scales, outliers and exact "
     "integers are drawn; only facts that the task states may be used."},
    {"A/B/A",
     "The same inputs gave other bits: initialise what is accumulated into, remove races, and let no result depend on "
     "the "
     "order of atomics or on an earlier call."},
    {"7 null models",
     "An answer without work passes too, so that nothing can be concluded: tell whoever wrote the task."},
    {"audit: consistency",
     "The timed calls gave other bits than the check: keep nothing between calls, and cache no result."},
    {"audit: interval", "The machine was too busy for a time that can be trusted. Evaluate the same variant again."},
    {"audit: samples", "Too few times could be taken. Evaluate the same variant again."},
    {"audit: bandwidth",
     "The time is below what moving the bytes takes: read all inputs and write all outputs in each call."},
    {"audit: launch", "The time is below that of an empty kernel: do the work in the call."},
    {"audit: arithmetic", "The time is below what the arithmetic takes at peak speed: do the work in the call."},
};

std::string hint_of_outcome(const verdict& v) {
  switch (v.result) {
    case outcome::correct:
      if (v.score_interval.low > 1) return "";
      if (v.score_interval.high < 1)
        return "It is right, and slower than the reference: look for memory that is read in strides, loops that do not "
               "vectorise, and work that the reference does not do.";
      return "It is right, but not faster than the reference by more than the interval: move fewer bytes, fuse more "
             "steps, "
             "or start from the task's best variant.";
    case outcome::invalid:
      return "Follow the format as the reason says: the format guide describes it, and the examples are programs to "
             "start from. A schedule has only moves that are legal for the task, in their order.";
    case outcome::compile_error:
      return "Correct the source as compiler_log says. Kernels are written in a dialect without headers, streams, "
             "clocks "
             "and inline PTX: the format guide lists what is allowed.";
    case outcome::compile_timeout:
      return "Unroll less, and use smaller tiles or fewer template instances.";
    case outcome::refused:
      return "The code does what no variant may, as the reason says: the format guide lists what is not allowed.";
    case outcome::wrong_answer:
      return "Compute what the task's reference computes, for all inputs.";
    case outcome::unexplained:
      return "An answer without work passes too: tell whoever wrote the task to explain its result.";
    case outcome::wrote_input:
      return "Write to outputs and allocated temporaries only: inputs and weights are read-only.";
    case outcome::out_of_bounds:
      return "Check every index against its tensor's size, the last block first.";
    case outcome::crash:
      return "Correct what the reason names: a division, an alignment, a wrong cast.";
    case outcome::forbidden:
      return "Make no system calls: kernels and steps compute, and do nothing else.";
    case outcome::hang:
      return "End every loop; do not wait for other blocks.";
    case outcome::out_of_memory:
      return "Allocate less: fuse steps, so that intermediate tensors are not needed.";
    case outcome::inconsistent:
      return "Give the same bits in each call: keep nothing between calls.";
    case outcome::unmeasurable:
      return "It is right, but the machine was too busy for a time that can be trusted. Evaluate the same variant "
             "again.";
    case outcome::quarantined:
      return "Its process was lost twice; evaluate another variant.";
  }
  return "";
}

}  // namespace

std::string failed_gate(const verdict& v) {
  for (const auto& gate : v.gates)
    if (!gate.passed) return gate.gate;
  return "";
}

std::string hint_of(const verdict& v) {
  const auto failed = failed_gate(v);
  if (v.reason.find("NaN or infinite where the reference is finite") != std::string::npos)
    return "Write every element of every output: memory is poisoned before a call, and what was not written shows as "
           "NaN. "
           "Check the grid, the last block and the tail of a row; then divisions and exponentials.";
  if (v.result == outcome::wrong_answer || v.result == outcome::unmeasurable || v.result == outcome::inconsistent ||
      v.result == outcome::refused)
    for (const auto& hint : gate_hints)
      if (failed == hint.gate) return std::string(hint.text);
  return hint_of_outcome(v);
}

json verdict_document(const verdict& v, const std::string& experiment, const std::string& device) {
  const bool has_score = v.score > 0;
  return json::make_object(
      {{"outcome", enum_name(v.result)},
       {"correct", v.result == outcome::correct},
       {"speedup", has_score ? json(v.score) : json()},
       {"interval", has_score ? json::make_array({v.score_interval.low, v.score_interval.high}) : json()},
       {"confirmed", v.confirmed},
       {"reference_us", v.reference_us},
       {"variant_us", v.variant_us},
       {"reference_device_us", v.reference_device_us},
       {"variant_device_us", v.variant_device_us},
       {"floor_us", v.floor_us},
       {"reason", v.reason},
       {"failed_gate", failed_gate(v)},
       {"hint", hint_of(v)},
       {"gates", to_json(v.gates)},
       {"compiler_log", v.compiler_log},
       {"resources", to_json(v.resources)},
       {"notes", to_json(v.notes)},
       {"suspicion", v.suspicion},
       {"variant", v.variant},
       {"task_id", v.task},
       {"experiment", experiment},
       {"device", device},
       {"environment_id", v.environment_id},
       {"reused_from", v.reused_from},
       {"stage_ms", to_json(v.stage_ms)}});
}

json verdict_document(const kernelbench::submission_verdict& v, const std::string& task_id, const std::string& device) {
  json document = verdict_document(kernelbench::as_verdict(v, task_id), "", device);
  if (const auto hint = kernelbench::hint_of_refusal(v.kind); !hint.empty()) document.set("hint", std::string(hint));
  document.set("language", v.language);
  return document;
}

}  // namespace cudal1::serve
