// NVML, the driver's management library, loaded at run time. Its functions and records are declared here as nvml.h of
// CUDA 13 has them (drivers from 525 on have all of them), so neither CUDA's wheels nor its toolkit are needed.
#pragma once

#include <memory>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

using nvml_device = struct nvml_device_record*;
using nvml_event_set = struct nvml_event_set_record*;

enum class nvml_status : int {
  success = 0,
  not_supported = 3,
  no_permission = 4,
  not_found = 6,
  insufficient_size = 7,
  driver_not_loaded = 9,
  timeout = 10,
  library_not_found = 12,
};

struct nvml_pci_info {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];  // "00000000:19:00.0"
};
struct nvml_memory {
  unsigned long long total, free, used;  // bytes
};
struct nvml_utilisation {
  unsigned gpu, memory;  // percent of the last sampling period, of up to a second
};
// Some drivers of the 535 series wrote 32 bytes each: buffers leave room for that.
struct nvml_process {
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
struct nvml_event {
  nvml_device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(nvml_pci_info) == 68 && sizeof(nvml_memory) == 24 && sizeof(nvml_process) == 24 &&
              sizeof(nvml_event) == 32);

inline constexpr int nvml_clock_sm = 1;
inline constexpr int nvml_uncorrected_error = 1, nvml_since_load = 0;
inline constexpr unsigned long long nvml_xid_event = 0x8;

// The library, initialised for as long as this object lives. The functions may be called from several threads.
class nvml {
 public:
  // Null if the machine has no driver (no library, or a library without a driver). errc::infrastructure if the driver
  // does not work.
  static expected<std::shared_ptr<const nvml>> open();
  ~nvml();
  nvml(const nvml&) = delete;
  nvml& operator=(const nvml&) = delete;

  // errc::infrastructure with the driver's message; `what` is for example "the name of GPU 0".
  expected<void> check(nvml_status status, const std::string& what) const;

  nvml_status (*driver_version)(char* text, unsigned length) = nullptr;
  nvml_status (*count)(unsigned* devices) = nullptr;
  nvml_status (*by_index)(unsigned index, nvml_device* device) = nullptr;
  nvml_status (*by_uuid)(const char* uuid, nvml_device* device) = nullptr;
  nvml_status (*name)(nvml_device device, char* text, unsigned length) = nullptr;
  nvml_status (*uuid)(nvml_device device, char* text, unsigned length) = nullptr;
  nvml_status (*pci_info)(nvml_device device, nvml_pci_info* info) = nullptr;
  nvml_status (*memory)(nvml_device device, nvml_memory* memory) = nullptr;
  nvml_status (*compute_capability)(nvml_device device, int* major, int* minor) = nullptr;
  nvml_status (*clock)(nvml_device device, int type, unsigned* mhz) = nullptr;
  nvml_status (*max_clock)(nvml_device device, int type, unsigned* mhz) = nullptr;
  nvml_status (*clock_reasons)(nvml_device device, unsigned long long* reasons) = nullptr;
  nvml_status (*utilisation)(nvml_device device, nvml_utilisation* utilisation) = nullptr;
  nvml_status (*processes)(nvml_device device, unsigned* count, nvml_process* list) = nullptr;
  // Null where the driver has no such function (before 450): it has no such mode either.
  nvml_status (*mig_mode)(nvml_device device, unsigned* current, unsigned* pending) = nullptr;
  nvml_status (*ecc_errors)(nvml_device device, int error, int counter, unsigned long long* count) = nullptr;
  nvml_status (*make_events)(nvml_event_set* set) = nullptr;
  nvml_status (*register_events)(nvml_device device, unsigned long long types, nvml_event_set set) = nullptr;
  nvml_status (*wait_event)(nvml_event_set set, nvml_event* event, unsigned timeout_ms) = nullptr;
  nvml_status (*free_events)(nvml_event_set set) = nullptr;

 private:
  explicit nvml(void* library) : library_(library) {}
  expected<void> find_functions();

  void* library_;
  bool initialised_ = false;
  nvml_status (*init_)() = nullptr;
  nvml_status (*shutdown_)() = nullptr;
  const char* (*text_of_)(nvml_status) = nullptr;
};

}  // namespace cudal1
