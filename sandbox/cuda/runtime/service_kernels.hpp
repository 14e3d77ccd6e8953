// The kernels that referee and runner themselves need, compiled by NVRTC in the process that uses them (before it is
// confined): poison, guards, cache flush, fingerprints, comparison, a kernel that waits for the host.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "sandbox/cuda/runtime/api.hpp"

namespace cudal1 {

// CUDA C++ without includes, compiled for the current device and loaded into this process. Kernels are
// `extern "C" __global__`. Errors: compile_failed with the log (a bug of ours), infrastructure.
// Whether a kernel may begin before the one before it in its stream has ended (from compute capability 9.0 on): it then
// waits itself, by griddepcontrol.wait, before it reads or writes what that one uses.
enum class kernel_start { after_previous, waits_itself };

class service_library {
 public:
  static expected<std::unique_ptr<service_library>> compile(std::string_view source, int device);
  // The two halves of that: a locked-down process compiles no more.
  static expected<std::string> compiled(std::string_view source, int device);
  static expected<std::unique_ptr<service_library>> load(const std::string& cubin);
  ~service_library();
  service_library(const service_library&) = delete;
  service_library& operator=(const service_library&) = delete;

  // `arguments` as for cudaLaunchKernel.
  expected<void> launch(const std::string& kernel, dim3 grid, dim3 block, void** arguments, cudaStream_t stream,
                        int shared_bytes = 0, kernel_start start = kernel_start::after_previous) const;

 private:
  service_library() = default;
  cudaLibrary_t library_ = nullptr;
  std::map<std::string, cudaKernel_t> kernels_;
};

}  // namespace cudal1
