// The compiler of the `cpu` device: the program's CUDA C++ through the host compiler, against our own header, in a
// confined and killable child process, into a shared object that has passed the instruction and symbol rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/base/error.hpp"
#include "sandbox/program/check.hpp"

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

struct compiled_code {
  std::string object;  // an ELF shared object, in memory; "" for a program without kernels
  std::string log;     // what the compiler said, bounded
  bool cached = false;
  double compile_ms = 0;
};

// compile() may be called from several threads. Errors: compile_failed (its log), timeout (time or memory),
// refused (which rule, which symbol or instruction), unsupported (which CUDA feature), infrastructure.
class host_compiler {
 public:
  static expected<std::unique_ptr<host_compiler>> create(host_compiler_options options);
  virtual ~host_compiler() = default;
  virtual expected<compiled_code> compile(const checked_program& p) = 0;
  // "g++ 12.2.0", with path, and the architecture flags in force: part of the cache key and of the environment.
  virtual std::string describe() const = 0;
};

}  // namespace cudal1
