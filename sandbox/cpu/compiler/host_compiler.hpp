// The compiler of the `cpu` device: the program's CUDA C++ through the host compiler, against our own header, in a
// confined and killable child process, into a shared object that has passed the instruction and symbol rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/base/error.hpp"
#include "sandbox/device/compiler.hpp"

namespace cudal1 {

struct host_compiler_options {
  std::string compiler;      // "" finds c++, g++ or clang++ on the path
  std::string cache_folder;  // "" keeps no cache; safe to share between processes
  int64_t cache_limit_bytes = int64_t{1} << 30;
  double time_limit_s = 20;
  int64_t memory_limit_bytes = int64_t{2} << 30;
  int64_t log_limit_bytes = 16 << 10;
  bool allow_weak_confinement = false;  // go on where the system refuses a required confinement
};

class host_compiler : public kernel_compiler {
 public:
  static expected<std::unique_ptr<host_compiler>> create(host_compiler_options options);
};

}  // namespace cudal1
