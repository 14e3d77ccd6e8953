#include "sandbox/cuda/runtime/device_memory.hpp"

#include <algorithm>
#include <filesystem>

namespace cudal1 {
namespace {

constexpr int64_t page = int64_t{2} << 20;  // the mapping granularity of every GPU since Volta
constexpr int64_t alignment = 512, last_alignment = 64, gap = 512;

int64_t rounded(int64_t value, int64_t to) {
  return (value + to - 1) / to * to;
}

CUmemAllocationProp properties_of(int device) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  wanted.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return wanted;
}

}  // namespace

device_mapping::~device_mapping() {
  if (base_ == 0) return;
  const auto api = driver_api();
  if (!api) return;
  (void)(*api)->mem_unmap(base_, bytes_);
  (void)(*api)->mem_free_address(base_, bytes_);
}

expected<int64_t> rounded_device_bytes(int64_t bytes, int device) {
  CUDAL1_TRY(const auto* const api, driver_api());
  const CUmemAllocationProp wanted = properties_of(device);
  std::size_t least = 0;
  CUDAL1_DRIVER(api->mem_granularity(&least, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  return rounded(std::max<int64_t>(bytes, 1), std::max(page, static_cast<int64_t>(least)));
}

expected<unique_fd> make_device_memory(int64_t bytes, int device) {
  CUDAL1_TRY(const auto* const api, driver_api());
  CUDAL1_TRY(const int64_t size, rounded_device_bytes(bytes, device));
  const CUmemAllocationProp wanted = properties_of(device);
  CUmemGenericAllocationHandle memory = 0;
  const CUresult made = api->mem_create(&memory, static_cast<std::size_t>(size), &wanted, 0);
  if (made == CUDA_ERROR_OUT_OF_MEMORY)
    return fail(errc::out_of_memory,
                "cuda:{} is out of memory ({} bytes were requested): other processes use it, or the memory "
                "limit (device.gpu_memory_limit_mb) is too large for it",
                device, size);
  CUDAL1_DRIVER(made);
  int fd = -1;
  const CUresult exported = api->mem_export(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  (void)api->mem_release(memory);  // the descriptor keeps it
  CUDAL1_DRIVER(exported);
  return unique_fd(fd);
}

expected<device_mapping> map_device_memory(int fd, int64_t bytes, int device, memory_access access) {
  CUDAL1_TRY(const auto* const api, driver_api());
  CUDAL1_TRY(const int64_t rounded_size, rounded_device_bytes(bytes, device));
  const auto size = static_cast<std::size_t>(rounded_size);
  CUmemGenericAllocationHandle memory = 0;
  CUDAL1_DRIVER(api->mem_import(&memory, std::bit_cast<void*>(static_cast<intptr_t>(fd)),
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  device_mapping result;
  CUdeviceptr base = 0;
  CUresult status = api->mem_reserve(&base, size, 0, 0, 0);
  if (status == CUDA_SUCCESS) {
    status = api->mem_map(base, size, 0, memory, 0);
    if (status != CUDA_SUCCESS) (void)api->mem_free_address(base, size);
  }
  (void)api->mem_release(memory);  // the mapping keeps it
  CUDAL1_DRIVER(status);
  result.base_ = base;
  result.bytes_ = size;
  const CUmemAccessDesc rights{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                               .flags = access == memory_access::read_write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                            : CU_MEM_ACCESS_FLAGS_PROT_READ};
  CUDAL1_DRIVER(api->mem_set_access(base, size, &rights, 1));
  return result;
}

device_layout device_layout_of(std::span<const tensor_type> types) {
  device_layout layout;
  layout.offsets.assign(types.size(), 0);
  int64_t total = 0;
  for (const auto& type : types)
    total += rounded(std::max<int64_t>(type.storage_bytes(), 1), alignment) + gap;
  layout.bytes = rounded(std::max<int64_t>(total, 1), page);
  int64_t end = layout.bytes;
  for (std::size_t i = types.size(); i-- > 0;) {
    const int64_t bytes = std::max<int64_t>(types[i].storage_bytes(), 1);
    const bool last = i + 1 == types.size();
    const int64_t to = last ? last_alignment : alignment;
    layout.offsets[i] = (end - bytes - (last ? 0 : gap)) / to * to;
    end = layout.offsets[i];
  }
  return layout;
}

std::vector<std::string> gpu_device_files() {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", ignored))
    if (entry.path().filename().string().starts_with("nvidia")) files.push_back(entry.path().string());
  return files;
}

}  // namespace cudal1
