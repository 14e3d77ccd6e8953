#include "sandbox/cuda/runner/install_gpu_arena.hpp"

#include <memory>

#include <c10/core/Allocator.h>
#include <c10/util/Exception.h>
#include <torch/csrc/cuda/CUDAPluggableAllocator.h>

namespace cudal1 {
namespace {

namespace pluggable = torch::cuda::CUDAPluggableAllocator;

device_arena* installed = nullptr;

void* allocate_block(std::size_t bytes) {
  void* const block = installed->allocate(bytes);
  TORCH_CHECK_WITH(OutOfMemoryError, block != nullptr || bytes == 0, bytes, " bytes were requested with ",
                   installed->bytes_in_use(), " in use of ", installed->bytes());
  return block;
}

void release_block(void* block) {
  installed->release(block);
}

// LibTorch's base class for custom allocators, but not its allocate(): that one keeps a table under a lock and queries
// the current device, which would slow down every operator of a timed call.
class arena_allocator final : public pluggable::CUDAPluggableAllocator {
 public:
  explicit arena_allocator(int device)
      : CUDAPluggableAllocator([](std::size_t bytes, int, cudaStream_t) { return allocate_block(bytes); },
                               [](void* block, std::size_t, int, cudaStream_t) { release_block(block); }),
        device_(c10::kCUDA, static_cast<c10::DeviceIndex>(device)) {}

  c10::DataPtr allocate(std::size_t bytes) override {
    void* const block = allocate_block(bytes);
    return {block, block, &release_block, device_};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_block; }

 private:
  c10::Device device_;
};

}  // namespace

expected<void> install_arena(device_arena& arena, int device) {
  installed = &arena;
  try {
    const auto allocator = std::make_shared<arena_allocator>(device);
    pluggable::changeCurrentAllocator(allocator);  // keeps it
    c10::SetAllocator(c10::kCUDA, allocator.get());
  } catch (const std::exception& e) {
    return fail(errc::infrastructure, "LibTorch's allocator: {}", e.what());
  }
  return {};
}

}  // namespace cudal1
