// Replaces the driver's libnvidia-ml.so.1: answers like a machine with GPUs, as FAKE_NVML_* specify. Written with the
// records of nvml.h, not ours.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

namespace {

struct pci_info {
  char legacy[16];
  unsigned domain, bus, device, ids, subsystem_ids;
  char bus_id[32];
};
struct memory_info {
  unsigned long long total, free, used;
};
struct process_info {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
};
struct event_data {
  void* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

int number(const char* name, int otherwise = 0) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoi(value);
}

char device_marks[16];
int index_of(void* device) {
  return static_cast<int>(static_cast<char*>(device) - device_marks);
}
int events_left = 0;

constexpr int not_found = 6, too_small = 7, timeout = 10;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return number("FAKE_NVML_INIT");
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int status) {
  return status == 18 ? "Driver/library version mismatch" : "Some error";
}
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  std::snprintf(text, length, "580.65.06");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(number("FAKE_NVML_GPUS"));
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = device_marks + index;
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  int index = 0;
  if (std::sscanf(uuid, "GPU-%da000000", &index) != 1 || index >= number("FAKE_NVML_GPUS")) return not_found;
  *device = device_marks + index;
  return 0;
}
int nvmlDeviceGetName(void*, char* text, unsigned length) {
  std::snprintf(text, length, "NVIDIA H200");
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned length) {
  std::snprintf(text, length, "GPU-%da000000-1111-2222-3333-444444444444", index_of(device));
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, pci_info* info) {
  std::memset(info, 0xff, sizeof *info);
  std::snprintf(info->bus_id, sizeof info->bus_id, "0000FFFF:%02X:00.0", index_of(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, memory_info* info) {
  *info = {150754820096ULL, 1, 2};
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = number("FAKE_NVML_MAJOR", 9);
  *minor = 0;
  return 0;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* mhz) {
  *mhz = type == 1 ? 1845 : 1;
  return 0;
}
int nvmlDeviceGetMaxClockInfo(void*, int type, unsigned* mhz) {
  *mhz = type == 1 ? 1980 : 1;
  return 0;
}
// Only by its older name, as in older drivers.
int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* reasons) {
  *reasons = static_cast<unsigned long long>(number("FAKE_NVML_REASONS"));
  return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, process_info* list) {
  const auto processes = static_cast<unsigned>(number("FAKE_NVML_PROCESSES"));
  const bool fits = processes <= *count;
  *count = processes;
  if (!fits) return too_small;
  for (unsigned i = 0; i < processes; ++i)
    list[i] = {1000 + i, 1, ~0U, ~0U};
  return 0;
}
int nvmlDeviceGetUtilizationRates(void*, unsigned* percent) {
  percent[0] = static_cast<unsigned>(number("FAKE_NVML_UTILISATION"));
  percent[1] = 0;
  return 0;
}
int nvmlDeviceGetMigMode(void*, unsigned* current, unsigned* pending) {
  const char* while_there = std::getenv("FAKE_NVML_MIG_FILE");
  const bool is_there = while_there != nullptr && ::access(while_there, F_OK) == 0;
  *current = is_there || number("FAKE_NVML_MIG") == 1 ? 1 : 0;
  *pending = 1;
  return number("FAKE_NVML_MIG") == 3 ? 3 : 0;
}
int nvmlDeviceGetTotalEccErrors(void*, int error, int counter, unsigned long long* count) {
  *count = error == 1 && counter == 0 ? 3 : 99;
  return number("FAKE_NVML_ECC");
}
int nvmlEventSetCreate(void** set) {
  *set = device_marks;
  return 0;
}
int nvmlDeviceRegisterEvents(void*, unsigned long long types, void*) {
  events_left = types == 8 ? number("FAKE_NVML_EVENTS") : 0;
  return number("FAKE_NVML_REGISTER");
}
int nvmlEventSetWait_v2(void*, event_data* event, unsigned) {
  if (events_left == 0) return timeout;
  // Xid 79, the GPU has fallen off the bus; then those of faulty kernels.
  *event = {nullptr, 8, events_left-- == 1 ? 79ULL : 31ULL, 0, 0};
  return 0;
}
int nvmlEventSetFree(void*) {
  return 0;
}
}
