// The kind of device `cuda`: the GPUs that NVIDIA's driver shows.
#include "sandbox/cuda/compiler/nvrtc_compiler.hpp"
#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/cuda/gpus/near_cores.hpp"
#include "sandbox/cuda/runner_memory.hpp"
#include "sandbox/cuda/session/cuda_session.hpp"
#include "sandbox/device/device_type.hpp"

namespace cudal1 {
namespace {

found_device found(const gpu_description& gpu) {
  return {.name = fmt::format("cuda:{}", gpu.index),
          .architecture = gpu.architecture(),
          .model = gpu.name,
          .near_cores = gpu.near_cores,
          .memory_bytes = gpu.memory_bytes,
          .details = fmt::format("driver {}, PCI {}, near cores {}", gpu.driver, gpu.pci_bus,
                                 gpu.near_cores.empty() ? "unknown" : format_core_list(gpu.near_cores))};
}

class cuda_device_type final : public device_type {
 public:
  const device_traits& traits() const override {
    static const device_traits t{
        .kind = "cuda",
        .numbered = true,
        .noun = "GPU",
        .preference = 1,
        .target = "cuda",
        .profile = "cuda",
        .worker = cuda_worker,
        .is_accelerator = true,
        .compiled_ahead = 6,
        .visibility = "CUDA_VISIBLE_DEVICES",
        .when_absent = "for kernels on a GPU: a driver (580 or newer) for CUDA 13; without one the device is cpu",
        .when_broken = "repair the driver, or use this machine with --device cpu"};
    return t;
  }

  expected<std::vector<found_device>> discover() const override {
    CUDAL1_TRY(const auto gpus, find_gpus());
    std::vector<found_device> devices;
    for (const auto& gpu : gpus)
      devices.push_back(found(gpu));
    return devices;
  }

  void set_defaults(configuration& c) const override { c = gpu_configuration(); }

  void apply_own_settings(configuration& c) const override {
    c.verification.memory_limit_mb = c.device.gpu_memory_limit_mb;
  }

  int64_t tensor_bytes(const found_device& device, const configuration& settings) const override {
    const int64_t allowed = settings.device.memory_mb << 20;
    const int64_t memory = allowed > 0 ? std::min(allowed, device.memory_bytes) : device.memory_bytes;
    const int64_t most = runner_tensor_bytes(settings.verification.memory_limit_mb << 20, memory);
    return memory > 0 ? std::min(most, memory / 4 * 3) : most;
  }

  core_request cores_for(const found_device& device, const device_options& options) const override {
    return {device.name, options.cores_per_gpu, 1, device.near_cores, -1};
  }

  expected<std::shared_ptr<kernel_compiler>> make_compiler(const compiler_setup& setup) const override {
    nvrtc_compiler_options o;
    o.architecture = setup.architecture;
    o.worker = setup.worker;
    o.cache_folder = setup.cache_folder;
    o.cache_limit_bytes = setup.options.cache_mb << 20;
    o.time_limit_s = setup.options.time_limit_s;
    o.memory_limit_bytes = setup.options.memory_limit_mb << 20;
    o.processes = setup.processes;
    o.allow_weak_confinement = setup.allow_weak_confinement;
    CUDAL1_TRY(std::shared_ptr<kernel_compiler> made, nvrtc_compiler::create(o));
    return made;
  }

  expected<std::unique_ptr<device_session>> start_session(const session_options& options) const override {
    return start_cuda_session(options);
  }
};

const device_registration registration{std::make_unique<cuda_device_type>()};

}  // namespace
}  // namespace cudal1
