// What the referee computes on: a device, memory there that a runner may map, and the referee's kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <c10/core/Device.h>

#include "config/base/error.hpp"
#include "config/base/memory_access.hpp"
#include "config/base/unique_fd.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

// Memory behind a descriptor, mapped here as long as this object lives.
struct device_memory {
  unique_fd file;
  std::byte* data = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<void> mapped;
};

struct device_room {
  int64_t free = 0, total = 0;  // bytes
};

// Not thread-safe. ATen's operators, launches and copies run in order, on ATen's current stream.
class referee_device {
 public:
  virtual ~referee_device() = default;
  virtual at::Device where() const = 0;
  // Launches a kernel of comparison_kernels.hpp; `arguments` as for cudaLaunchKernel.
  virtual expected<void> launch(const std::string& kernel, unsigned blocks, void** arguments) = 0;
  // Nothing of this process is in flight on the device afterwards.
  virtual expected<void> synchronise() = 0;
  virtual expected<device_room> room() = 0;
  // Frees the memory that ATen caches. Allocating it again takes longer than a small task.
  virtual void give_back() = 0;
  virtual expected<device_memory> make_memory(int64_t bytes, memory_access access) = 0;
};

// A context on that GPU, with the kernels compiled and the libraries of ATen's operators warmed up. Call it before the
// process is confined. `most_bytes`: of its memory, that this process and its runners may take; 0: what is free.
expected<std::unique_ptr<referee_device>> make_gpu_device(int index, int64_t most_bytes = 0);

}  // namespace cudal1
