// The memory that a referee and a runner share: the state of the current call as a futex word, the places of the
// outputs, and the fault handler's record. The runner may write anything at any time, so the referee copies what it
// reads and checks every number of the copy.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "config/base/error.hpp"
#include "sandbox/isolation/frame.hpp"

namespace cudal1 {

enum class call_state : uint32_t {
  idle,     // the runner waits
  go,       // set by the referee: the clock runs
  done,     // set by the runner: the outputs are listed
  failed,   // set by the runner: the interpreter's error is in `text`
  faulted,  // set by the runner's fault handler; the process is ending
};

// Where the memory of an output is.
// `constant`: what setup steps made, in the arena; of a fault only.
enum class output_home : uint32_t { arena, input, weight, elsewhere, constant };
struct output_place {
  output_home home = output_home::elsewhere;
  uint32_t index = 0;  // of the input or weight
  int64_t offset = 0;  // of the first byte, in the arena or from the tensor's first byte
};

// Written by the fault handler.
struct fault_record {
  int32_t signal = 0, code = 0;
  int32_t system_call = 0;  // SIGSYS
  int32_t access = 0;       // page faults: 1 a read, 2 a write, 0 unknown
  uint64_t address = 0;
  output_home region = output_home::elsewhere;  // the memory at that address
  uint32_t index = 0;
  uint32_t stack = 0;  // 1: the address is close to the stack's end
  char step[160] = {};
};

struct control_block {
  static constexpr uint32_t max_outputs = 256;
  static constexpr int64_t bytes = 16384;
  // From this offset on, the memory holds the runner's standard error.
  static constexpr int64_t stderr_offset = 8192;

  std::atomic<uint32_t> state{0};
  uint32_t output_count = 0;
  int32_t error_code = 0;  // an errc, with its message in `text`
  char text[1024] = {};
  fault_record fault;
  output_place outputs[max_outputs];
};
static_assert(sizeof(control_block) <= control_block::stderr_offset);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Sets the state and wakes the processes that wait for it.
void set_state(control_block& control, call_state value) noexcept;

struct wait_options {
  std::chrono::microseconds spin{50};
  // A descriptor that becomes readable when the other process has ended (a pidfd or a socket), or -1. Checked every few
  // milliseconds.
  int watched = -1;
};
// Spins for a while, then sleeps until the state differs from `from`, or `until` has passed, or the watched process has
// ended. Returns the last state seen.
call_state wait_while(control_block& control, call_state from, deadline until, const wait_options& options);

// A text of the other process, cut at the buffer's end and without control characters.
std::string printable(const char* text, std::size_t capacity);

}  // namespace cudal1
