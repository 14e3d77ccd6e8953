// The compiler of the `cuda` devices: NVRTC compiles CUDA C++, in confined processes with a timeout, into a cubin whose
// PTX must pass the rules.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/base/error.hpp"
#include "sandbox/device/compiler.hpp"

namespace cudal1 {

struct nvrtc_compiler_options {
  std::string architecture = "sm_90a";  // real, not virtual (compute_90): the result is a cubin
  std::string worker;                   // cudal1-worker; "" finds it beside this program
  std::string cache_folder;             // "" for no cache; several processes may share one
  int64_t cache_limit_bytes = int64_t{1} << 30;
  double time_limit_s = 20;                       // of one compilation, from its start; CUTLASS needs many
  int64_t memory_limit_bytes = int64_t{2} << 30;  // of one compilation
  int64_t log_limit_bytes = 16 << 10;
  int processes = 1;  // concurrent compilations; further callers wait
  bool allow_weak_confinement = false;
};

class nvrtc_compiler : public kernel_compiler {
 public:
  // Starts the zygote, which takes a second if LibTorch is not in the page cache. Errors: invalid_argument (an option),
  // unsupported (the architecture), infrastructure, io_error (the cache).
  static expected<std::unique_ptr<nvrtc_compiler>> create(nvrtc_compiler_options options);
};

}  // namespace cudal1
