// A compiled shared object of kernels, loaded into this process, and its launches. Used inside a runner.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// A kernel found in the library.
struct host_kernel;  // opaque

class kernel_library {
 public:
  // Loads the object that `object_fd` (a sealed memory file) holds. Nothing of it is executed by loading: the object
  // rules forbid constructors and ifuncs.
  static expected<std::unique_ptr<kernel_library>> load(int object_fd);
  virtual ~kernel_library() = default;
  virtual expected<const host_kernel*> find(const std::string& kernel) const = 0;
  // How many arguments a launch must give: compare with the program's before the first launch.
  virtual int parameter_count(const host_kernel* kernel) const = 0;
  // Its threads meet (barriers, shuffles, shared memory): exact, and far slower than a loop kernel.
  virtual bool uses_fibers(const host_kernel* kernel) const = 0;
  // Makes what launches of this kernel on `threads` threads need (stacks), so that launch() maps no memory. To be
  // called before the process is locked down; a loop kernel needs nothing. Errors: infrastructure.
  virtual expected<void> prepare(const host_kernel* kernel, int threads) const = 0;
  // `arguments`: one pointer for each of the kernel's parameters, to the value (a pointer, an int32, ...), as with
  // cudaLaunchKernel. The blocks are spread in contiguous ranges over `threads` threads, of which there must be enough
  // (prepare_launch_threads in launch_threads.hpp, before lock-down); with 1 everything runs in the caller. Returns
  // when all are done. One launch at a time. A launch that cannot be (sizes out of range, more than 2^31-1 threads
  // along x) and a deadlock end the process with a message (kernel_fault in runtime.hpp).
  virtual void launch(const host_kernel* kernel, const std::array<int64_t, 3>& grid,
                      const std::array<int64_t, 3>& block, int64_t shared_bytes, void* const* arguments,
                      int threads) const = 0;
  // Overwrites what launches left on the stacks and in the shared memory that they ran on. Not during a launch.
  virtual void forget() const {}
};

}  // namespace cudal1
