// One call of a program that is loaded in a runner, as the referee plans it, and its result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <boost/describe.hpp>

#include "config/base/hash.hpp"
#include "sandbox/isolation/control_block.hpp"

namespace cudal1 {

struct draw;

BOOST_DEFINE_ENUM_CLASS(resident_program, reference, variant)

BOOST_DEFINE_ENUM_CLASS(call_mode, untimed,
                        timed,         // caches flushed, then host clock around the call and its synchronisation; on a
                                       // GPU, a host-bound call is first rehearsed, with no effect on device state
                        device_timed,  // caches flushed, between two events behind a kernel that waits for the host
                        warm_timed)    // the same, with the draw's inputs read again after the flush

// Whether the device's clock takes the time.
inline bool is_on_device(call_mode mode) {
  return mode == call_mode::device_timed || mode == call_mode::warm_timed;
}

// The draw must live until the call has returned.
struct planned_call {
  resident_program which = resident_program::variant;
  std::shared_ptr<const cudal1::draw> draw;
  call_mode mode = call_mode::untimed;
  uint64_t key = 0;        // of its outputs' fingerprint; secret, so that a variant cannot construct a collision
  bool keep = false;       // keep its outputs: they get a fingerprint and can be compared
  bool elsewhere = false;  // map the draw's inputs at other addresses than in earlier calls
};

// The place of an output of a call, after a check that it lies in the memory that the runner claims.
struct output_memory {
  const std::byte* data = nullptr;  // in a form that the backend's compare() understands
  output_home home = output_home::arena;
  uint32_t index = 0;  // of the input or weight
};

struct call_record {
  double microseconds = 0;             // of a timed call
  double flush_ms = 0;                 // preparation before a timed call's clock starts
  fingerprint bits;                    // of all outputs, if they were kept
  std::vector<output_memory> outputs;  // kept outputs, in the program's order; valid until the runner's next request
};

// A call of the variant whose outputs were kept.
struct kept_call {
  const planned_call* planned = nullptr;
  const call_record* record = nullptr;
};

}  // namespace cudal1
