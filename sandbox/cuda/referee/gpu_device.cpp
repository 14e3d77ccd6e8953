#include <algorithm>

#include <ATen/ops/conv2d.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sum.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/InferenceMode.h>

#include "sandbox/cuda/referee/comparison_kernels.hpp"
#include "sandbox/cuda/referee/referee_device.hpp"
#include "sandbox/cuda/runtime/device_memory.hpp"
#include "sandbox/cuda/runtime/service_kernels.hpp"

namespace cudal1 {
namespace {

class gpu_device final : public referee_device {
 public:
  gpu_device(int index, std::unique_ptr<service_library> kernels, int64_t withheld)
      : index_(index), kernels_(std::move(kernels)), withheld_(withheld) {}

  at::Device where() const override { return {at::kCUDA, static_cast<c10::DeviceIndex>(index_)}; }

  // On the default stream, which is ATen's as well.
  expected<void> launch(const std::string& kernel, unsigned blocks, void** arguments) override {
    return kernels_->launch(kernel, dim3(blocks), dim3(referee_kernel_threads), arguments, nullptr);
  }

  expected<void> synchronise() override {
    CUDAL1_CUDA(cudaDeviceSynchronize());
    return {};
  }

  expected<device_room> room() override {
    std::size_t free = 0, total = 0;
    CUDAL1_CUDA(cudaMemGetInfo(&free, &total));
    return device_room{std::max<int64_t>(static_cast<int64_t>(free) - withheld_, 0),
                       static_cast<int64_t>(total) - withheld_};
  }

  void give_back() override { at::getDeviceAllocator(at::kCUDA)->emptyCache(); }

  expected<device_memory> make_memory(int64_t bytes, memory_access access) override {
    device_memory made;
    CUDAL1_TRY(made.bytes, rounded_device_bytes(bytes, index_));
    auto file = make_device_memory(bytes, index_);
    if (!file) {
      give_back();  // ATen's cache may hold the missing memory
      file = make_device_memory(bytes, index_);
    }
    if (!file) return tl::unexpected<error>(file.error());
    made.file = std::move(*file);
    CUDAL1_TRY(auto mapped, map_device_memory(made.file.get(), bytes, index_, access));
    made.data = mapped.data();
    made.mapped = std::make_shared<device_mapping>(std::move(mapped));
    return made;
  }

 private:
  int index_;
  std::unique_ptr<service_library> kernels_;
  int64_t withheld_;  // bytes that are free and left to others
};

// cuBLAS, cuDNN and the generator's state, in both precisions that expected outputs are computed in.
expected<void> warm_up_operators(at::Device device) {
  try {
    const c10::InferenceMode no_autograd;
    for (const auto type : {at::kFloat, at::kDouble}) {
      const auto options = at::TensorOptions().device(device).dtype(type);
      const auto a = at::randn({64, 64}, options);
      (void)at::sum(at::mm(a, a)).item();
      (void)at::conv2d(at::randn({1, 3, 16, 16}, options), at::randn({4, 3, 3, 3}, options)).sum().item();
    }
  } catch (const std::exception& e) {
    return fail(errc::infrastructure, "LibTorch on {}: {}", device.str(), e.what());
  }
  return {};
}

}  // namespace

expected<std::unique_ptr<referee_device>> make_gpu_device(int index, int64_t most_bytes) {
  CUDAL1_CUDA(cudaSetDevice(index));
  CUDAL1_CUDA(cudaFree(nullptr));  // makes the context
  std::size_t free = 0, total = 0;
  CUDAL1_CUDA(cudaMemGetInfo(&free, &total));
  const int64_t withheld = most_bytes > 0 ? std::max<int64_t>(static_cast<int64_t>(free) - most_bytes, 0) : 0;
  CUDAL1_CHECK(driver_api());
  CUDAL1_TRY(auto kernels, service_library::compile(referee_kernel_text(), index));
  auto device = std::make_unique<gpu_device>(index, std::move(kernels), withheld);
  CUDAL1_CHECK(warm_up_operators(device->where()));
  // The first export and import opens the files that later ones need.
  CUDAL1_CHECK(device->make_memory(1, memory_access::read_write));
  CUDAL1_CHECK(device->synchronise());
  return device;
}

}  // namespace cudal1
