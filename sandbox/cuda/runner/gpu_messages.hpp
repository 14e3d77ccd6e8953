// The messages between the referee and the runner of a GPU. One runner serves many variants, until one of them breaks
// it. It holds the task's own program and one variant; draws and weights are the referee's memory, which it maps for
// reading. Only device code is untrusted there, so the runner measures time; the referee still checks every number.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/isolation/control_block.hpp"
#include "sandbox/referee/planned_call.hpp"

namespace cudal1 {

// How long each of them busy-waits for the next frame before it sleeps.
inline constexpr std::chrono::microseconds spin_time{300};

// Every message is answered by `done` with a gpu_reply, or by `failed`. errc::variant_fault is a fault of the program
// (the text names the step), after which the process may be unusable: a runner whose context is broken exits, and the
// referee notices with the next frame that it does not respond.

// arena: descriptors {progress, memory...}. Once, first. The runner's tensors live in the memory, whose parts follow
// each other there; the referee maps them for reading. `progress` is a page of the host's memory, a gpu_progress.
struct gpu_arena_message {
  std::vector<int64_t> bytes;  // of each part
};
BOOST_DESCRIBE_STRUCT(gpu_arena_message, (), (bytes))

// load: descriptor {object}, or none for a program without kernels. Replaces the resident program of that kind.
struct gpu_load_message {
  resident_program which = resident_program::variant;
  std::string program;  // "" for the program that it replaces, at other addresses
  uint64_t seed = 0;    // of what overwrites whatever a variant could have left on the device
};
BOOST_DESCRIBE_STRUCT(gpu_load_message, (), (which, program, seed))

// unload: frees all of the program's memory.
struct gpu_unload_message {
  resident_program which = resident_program::variant;
};
BOOST_DESCRIBE_STRUCT(gpu_unload_message, (), (which))

// tensors: descriptor {memory}, laid out by device_layout_of the types of the task's inputs or weights. `id` is new.
struct gpu_tensors_message {
  int64_t id = 0;
  bool weights = false;
  int64_t bytes = 0;  // of the memory
};
BOOST_DESCRIBE_STRUCT(gpu_tensors_message, (), (id, weights, bytes))

// drop: unmaps what `tensors` mapped.
struct gpu_drop_message {
  std::vector<int64_t> ids;
};
BOOST_DESCRIBE_STRUCT(gpu_drop_message, (), (ids))

// One call of a resident program. Weights are set (and setup steps run) if `weights` or `generation` differs from the
// last call of that program: the referee may have written others into the same memory.
struct gpu_call {
  resident_program which = resident_program::variant;
  int64_t inputs = 0, weights = 0;  // ids; 0 if the program has none
  int64_t generation = 0;           // of the weights' content
  uint64_t seed = 0;                // of poison and addresses
  uint64_t key = 0;                 // of its outputs' fingerprint
  call_mode mode = call_mode::untimed;
  bool elsewhere = false;  // use the same inputs mapped at other addresses
  bool keep = false;       // copy its outputs after the timing, and keep them until the next frame
};
BOOST_DESCRIBE_STRUCT(gpu_call, (), (which, inputs, weights, generation, seed, key, mode, elsewhere, keep))

// call: several calls in sequence, without messages in between: communication disturbs the next call's time more than
// everything that the runner does itself. The first failure ends the sequence.
struct gpu_calls_message {
  std::vector<gpu_call> calls;
};
BOOST_DESCRIBE_STRUCT(gpu_calls_message, (), (calls))

// How many calls began since the runner started, which distinguishes a call that hangs from many slow ones.
struct gpu_progress {
  static constexpr int64_t bytes = 4096;
  std::atomic<uint32_t> calls{0};
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct gpu_output_place {
  uint32_t home = 0;  // output_home
  uint32_t index = 0;
  int64_t offset = 0;  // of its first byte: in the arena, or from the first byte of that input or weight
};
BOOST_DESCRIBE_STRUCT(gpu_output_place, (), (home, index, offset))

struct gpu_call_record {
  double microseconds = 0;                // of a timed call, by the requested clock
  double setup_ms = 0;                    // if weights were set
  double flush_ms = 0;                    // of poison and flush
  uint64_t hash_low = 0, hash_high = 0;   // of its outputs (fingerprints.hpp)
  std::string guard_problem;              // "", or which memory outside the program's tensors was written
  std::vector<gpu_output_place> outputs;  // if they are kept
};
BOOST_DESCRIBE_STRUCT(gpu_call_record, (),
                      (microseconds, setup_ms, flush_ms, hash_low, hash_high, guard_problem, outputs))

struct gpu_reply {
  std::vector<gpu_call_record> calls;  // of call
  std::vector<std::string> notes;      // of call: how it ran if not as requested: "graph: ..."
  std::string problem;                 // of call: "" or which memory outside of tensors was written
};
BOOST_DESCRIBE_STRUCT(gpu_reply, (), (calls, notes, problem))

}  // namespace cudal1
