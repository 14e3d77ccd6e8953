// Compiled kernels, loaded into this process, and their launches: what a runner's interpreter needs of a kind of
// device.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

// A kernel found in a library: each kind of library derives its own.
struct kernel_handle {};

class kernel_library {
 public:
  virtual ~kernel_library() = default;
  virtual expected<const kernel_handle*> find(const std::string& kernel) const = 0;
  // How many arguments a launch must give: compare with the program's before the first launch.
  virtual int parameter_count(const kernel_handle* kernel) const = 0;
  // Its threads meet (barriers, shuffles, shared memory): exact, and far slower than a loop kernel.
  virtual bool uses_fibers(const kernel_handle* kernel) const = 0;
  // Makes what launches of this kernel on `threads` threads need (stacks), so that launch() maps no memory. To be
  // called before the process is locked down; a loop kernel needs nothing. Errors: infrastructure.
  virtual expected<void> prepare(const kernel_handle* kernel, int threads) const = 0;
  // `arguments`: one pointer for each of the kernel's parameters, to the value (a pointer, an int32, ...), as with
  // cudaLaunchKernel. The blocks are spread in contiguous ranges over `threads` threads, of which there must be enough
  // (on `cpu`: prepare_launch_threads, before lock-down); with 1 everything runs in the caller. Returns
  // when all are done. One launch at a time. A launch that cannot be (sizes out of range, more than 2^31-1 threads
  // along x) and a deadlock end the process with a message on `cpu` (kernel_fault); see load_cubin for a GPU.
  virtual void launch(const kernel_handle* kernel, const std::array<int64_t, 3>& grid,
                      const std::array<int64_t, 3>& block, int64_t shared_bytes, void* const* arguments,
                      int threads) const = 0;
  // Overwrites what launches left on the stacks and in the shared memory that they ran on. Not during a launch.
  virtual void forget() const {}
};

}  // namespace cudal1
