// Compiles a program to device code, for one kind of device: with the host compiler for `cpu`, NVRTC for `cuda`.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/evaluation_records.hpp"
#include "sandbox/program/check.hpp"

namespace cudal1 {

struct compiled_code {
  std::string object;  // ELF, in memory: a shared object or a cubin; "" for a program without kernels
  std::string log;     // the compiler's output, truncated
  std::vector<kernel_resources> resources;  // of each kernel, if the compiler reports them
  bool cached = false;
  double compile_ms = 0;
};
BOOST_DESCRIBE_STRUCT(compiled_code, (), (object, log, resources, cached, compile_ms))

// compile() may be called from several threads. Errors: compile_failed (with the log), timeout (time or memory),
// refused (with the rule and the symbol or instruction), unsupported (with the CUDA feature), infrastructure.
class kernel_compiler {
 public:
  virtual ~kernel_compiler() = default;
  // `seconds`: at most so long, and at most the compiler's own limit.
  virtual expected<compiled_code> compile(const checked_program& p, double seconds) = 0;
  expected<compiled_code> compile(const checked_program& p) {
    return compile(p, std::numeric_limits<double>::infinity());
  }
  // "g++ 12.2.0" or "NVRTC 13.0", with path and architecture: part of the cache key and of the environment.
  virtual std::string describe() const = 0;
};

}  // namespace cudal1
