// Compiled kernels that are loaded into this process, and their launches: the interpreter's interface to a kind of
// device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "config/base/error.hpp"
#include "sandbox/program/program.hpp"

namespace cudal1 {

// A kernel found in a library. Each kind of library derives from it.
struct kernel_handle {};

// One launch, but for its arguments.
struct kernel_launch {
  const kernel_handle* kernel = nullptr;
  std::array<int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  int64_t shared_bytes = 0;
  bool cooperative = false, programmatic = false;  // as in launch_step
  std::vector<std::size_t> argument_bytes = {};    // of each; only a library that closes memory needs them
};

// The memory of a tensor map as a kernel's argument; each kind of device has its own form.
struct alignas(64) tensor_map_value {
  std::array<std::byte, 192> bytes;
};

class kernel_library {
 public:
  virtual ~kernel_library() = default;
  virtual expected<const kernel_handle*> find(const std::string& kernel) const = 0;
  // The number of arguments of a launch.
  virtual int parameter_count(const kernel_handle* kernel) const = 0;
  // Whether its threads interact (barriers, shuffles, shared memory): correct, but far slower than a loop kernel.
  virtual bool uses_fibers(const kernel_handle* kernel) const = 0;
  // Allocates the stacks for this launch on `threads` threads, so that launch() maps no memory. Call it before the
  // process is locked down. Does nothing for a loop kernel. Errors: infrastructure, unsupported (a cooperative launch
  // of more threads than a device runs at the same time).
  virtual expected<void> prepare(const kernel_launch& launch, int threads) const = 0;
  // The map of the tensor at `data`, of a type that check_tensor_map() accepted. Errors: invalid_argument (its address
  // is no multiple of 16), unsupported (the device has no tensor maps).
  virtual expected<tensor_map_value> map_tensor(const tensor_map& map, const tensor_type& type,
                                                const void* data) const = 0;
  // `arguments`: one pointer for each of the kernel's parameters, to the value (a pointer, an int32, a tensor map...),
  // as with cudaLaunchKernel. The blocks are divided in contiguous ranges among `threads` threads, which must exist (on
  // `cpu`: prepare_launch_threads, before lock-down); with 1 everything runs in the calling thread. Returns when all
  // blocks are done. One launch at a time. On `cpu` an impossible launch (sizes out of range, more than 2^31-1 threads
  // along x) or a deadlock ends the process with a message (kernel_fault); see load_cubin for a GPU.
  virtual void launch(const kernel_launch& launch, void* const* arguments, int threads) const = 0;
  // Overwrites the data that launches left on their stacks and in shared memory. Not during a launch.
  virtual void forget() const {}
};

}  // namespace cudal1
