// The compiler of the `cpu` device. The host compiler, in a confined child process with a timeout, compiles the
// program's CUDA C++ with our own header into a shared object, which must pass the rules about objects.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/base/error.hpp"
#include "sandbox/device/compiler.hpp"

namespace cudal1 {

struct host_compiler_options {
  std::string compiler;      // "" uses g++ or c++ from the path
  std::string cache_folder;  // "" for no cache; several processes may share one
  int64_t cache_limit_bytes = int64_t{1} << 30;
  double time_limit_s = 20;
  int64_t memory_limit_bytes = int64_t{2} << 30;
  int64_t log_limit_bytes = 16 << 10;
  int processes = 1;                    // concurrent compilations; further callers wait
  bool allow_weak_confinement = false;  // continue if the system refuses a required confinement
};

class host_compiler : public kernel_compiler {
 public:
  static expected<std::unique_ptr<host_compiler>> create(host_compiler_options options);
};

}  // namespace cudal1
