#include "sandbox/cuda/gpus/nvml.hpp"

#include <dlfcn.h>

namespace cudal1 {

namespace {

constexpr const char* library_name = "libnvidia-ml.so.1";

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

}  // namespace

expected<std::shared_ptr<const nvml>> nvml::open() {
  void* library = ::dlopen(library_name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  std::shared_ptr<nvml> opened(new nvml(library));
  CUDAL1_CHECK(opened->find_functions());
  const nvml_status status = opened->init_();
  // Container images may have the library without a driver.
  if (status == nvml_status::driver_not_loaded || status == nvml_status::library_not_found) return nullptr;
  if (status != nvml_status::success)
    return fail(errc::infrastructure,
                "there is a GPU driver, but it does not work: {} (NVML {}); `nvidia-smi` should report the same; "
                "devices = \"cpu\" does not need it",
                opened->text_of_(status), static_cast<int>(status));
  opened->initialised_ = true;
  return opened;
}

nvml::~nvml() {
  if (initialised_) shutdown_();
  ::dlclose(library_);
}

expected<void> nvml::find_functions() {
  std::string missing;
  const auto need = [&](const char* symbol, auto& function) {
    if (!find(library_, symbol, function)) missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  };
  need("nvmlInit_v2", init_);
  need("nvmlShutdown", shutdown_);
  need("nvmlErrorString", text_of_);
  need("nvmlSystemGetDriverVersion", driver_version);
  need("nvmlDeviceGetCount_v2", count);
  need("nvmlDeviceGetHandleByIndex_v2", by_index);
  need("nvmlDeviceGetHandleByUUID", by_uuid);
  need("nvmlDeviceGetName", name);
  need("nvmlDeviceGetUUID", uuid);
  need("nvmlDeviceGetPciInfo_v3", pci_info);
  need("nvmlDeviceGetMemoryInfo", memory);
  need("nvmlDeviceGetCudaComputeCapability", compute_capability);
  need("nvmlDeviceGetClockInfo", clock);
  need("nvmlDeviceGetMaxClockInfo", max_clock);
  // The older name of the same function.
  if (!find(library_, "nvmlDeviceGetCurrentClocksEventReasons", clock_reasons))
    need("nvmlDeviceGetCurrentClocksThrottleReasons", clock_reasons);
  need("nvmlDeviceGetUtilizationRates", utilisation);
  need("nvmlDeviceGetComputeRunningProcesses_v3", processes);
  find(library_, "nvmlDeviceGetMigMode", mig_mode);
  need("nvmlDeviceGetTotalEccErrors", ecc_errors);
  need("nvmlEventSetCreate", make_events);
  need("nvmlDeviceRegisterEvents", register_events);
  need("nvmlEventSetWait_v2", wait_event);
  need("nvmlEventSetFree", free_events);
  if (missing.empty()) return {};
  return fail(errc::infrastructure,
              "the GPU driver's library {} has no {}: it is too old (CUDA 13 needs driver 580 or newer)", library_name,
              missing);
}

expected<void> nvml::check(nvml_status status, const std::string& what) const {
  if (status == nvml_status::success) return {};
  return fail(errc::infrastructure, "the GPU driver does not report {}: {} (NVML {})", what, text_of_(status),
              static_cast<int>(status));
}

}  // namespace cudal1
