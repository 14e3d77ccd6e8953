// The messages between a compiler and its zygote. The zygote is `cudal1-worker compile-cuda SETTINGS`: it has loaded
// and warmed NVRTC, and forks one confined child per compilation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <boost/describe.hpp>

#include "sandbox/isolation/confine.hpp"

namespace cudal1 {

// On the zygote's command line.
struct compile_settings {
  std::string architecture;  // "sm_90a"
  double time_limit_s = 20;  // of processor time; the compiler's owner limits the wall time
  int64_t memory_limit_bytes = int64_t{2} << 30;
  int64_t log_limit_bytes = 16 << 10;
  bool allow_weak_confinement = false;
};
BOOST_DESCRIBE_STRUCT(compile_settings, (),
                      (architecture, time_limit_s, memory_limit_bytes, log_limit_bytes, allow_weak_confinement))

// report, once: the zygote is ready.
struct compile_zygote_report {
  std::string version;               // "NVRTC 13.0, V13.0.88"
  std::vector<std::string> headers;  // the sets of header_sets that are installed
  double warm_ms = 0;
};
BOOST_DESCRIBE_STRUCT(compile_zygote_report, (), (version, headers, warm_ms))

// spawn: descriptors {answer, ending}, the writing ends of two pipes. The child answers on the first; on the second the
// zygote writes a compile_ending when it has reaped the child. Answered by spawned with {pidfd}.
struct compile_request {
  std::string source;  // with its prologue
  std::vector<std::string> headers;
};
BOOST_DESCRIBE_STRUCT(compile_request, (), (source, headers))

enum class compile_status : uint32_t {
  compiled,
  refused,         // by the compiler: the log says why
  out_of_memory,   // reported by the compiler itself
  bad_option,      // our error: an architecture that it does not know
  internal_error,  // of the compiler
  unconfined       // a required step of the confinement failed; the log names it
};

// Then cubin, PTX and log, in this order.
struct compile_answer {
  static constexpr uint32_t magic_value = 0x31434e43;  // "CNC1"
  uint32_t magic = magic_value;
  compile_status status = compile_status::internal_error;
  uint64_t cubin = 0, ptx = 0, log = 0;  // bytes
};
static_assert(sizeof(compile_answer) == 32);
inline constexpr uint64_t max_answer_bytes = uint64_t{256} << 20;

struct compile_ending {
  int32_t signal = 0, code = 0;
  int64_t peak_kib = 0;  // resident, of the child
};
static_assert(sizeof(compile_ending) == 16);

}  // namespace cudal1
