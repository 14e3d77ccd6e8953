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
  // `arguments`: one pointer for each of the kernel's parameters, to the value (a pointer, an int32, ...), as with
  // cudaLaunchKernel. Blocks are spread over LibTorch's threads by the caller's `parallel_for`-like function:
  // run(first, last) executes blocks first..last-1 of the flattened grid. Returns when all are done.
  virtual void launch(const host_kernel* kernel, const std::array<int64_t, 3>& grid,
                      const std::array<int64_t, 3>& block, int64_t shared_bytes, void* const* arguments,
                      int threads) const = 0;
};

}  // namespace cudal1
