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

namespace {

// All memory behind the descriptor, at reserved addresses.
expected<void> map_at(CUdeviceptr base, std::size_t bytes, int fd, int device, memory_access access) {
  CUDAL1_TRY(const auto* const api, driver_api());
  CUmemGenericAllocationHandle memory = 0;
  CUDAL1_DRIVER(api->mem_import(&memory, std::bit_cast<void*>(static_cast<intptr_t>(fd)),
                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  const CUresult mapped = api->mem_map(base, bytes, 0, memory, 0);
  (void)api->mem_release(memory);  // the mapping keeps it
  CUDAL1_DRIVER(mapped);
  const CUmemAccessDesc rights{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                               .flags = access == memory_access::read_write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                                                            : CU_MEM_ACCESS_FLAGS_PROT_READ};
  const CUresult allowed = api->mem_set_access(base, bytes, &rights, 1);
  if (allowed != CUDA_SUCCESS) (void)api->mem_unmap(base, bytes);
  CUDAL1_DRIVER(allowed);
  return {};
}

// Mapping memory is no work of a stream, though a capture in its strictest mode takes it for one.
class beside_captures {
 public:
  beside_captures() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~beside_captures() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  beside_captures(const beside_captures&) = delete;
  beside_captures& operator=(const beside_captures&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace

expected<device_mapping> map_device_memory(int fd, int64_t bytes, int device, memory_access access) {
  CUDAL1_TRY(const auto* const api, driver_api());
  CUDAL1_TRY(const int64_t rounded_size, rounded_device_bytes(bytes, device));
  const auto size = static_cast<std::size_t>(rounded_size);
  CUdeviceptr base = 0;
  CUDAL1_DRIVER(api->mem_reserve(&base, size, 0, 0, 0));
  if (auto mapped = map_at(base, size, fd, device, access); !mapped) {
    (void)api->mem_free_address(base, size);
    return tl::unexpected<error>(mapped.error());
  }
  device_mapping result;
  result.base_ = base;
  result.bytes_ = size;
  return result;
}

expected<mapping_in_parts> mapping_in_parts::reserve(std::vector<unique_fd> files, std::vector<int64_t> bytes,
                                                     int device) {
  if (files.empty() || files.size() != bytes.size())
    return fail(errc::corrupt, "memory in {} parts comes with {} descriptors", bytes.size(), files.size());
  CUDAL1_TRY(const auto* const api, driver_api());
  std::size_t all = 0;
  for (const int64_t part : bytes) {
    if (part <= 0 || part % page != 0) return fail(errc::corrupt, "a part of {} bytes of memory", part);
    all += static_cast<std::size_t>(part);
  }
  mapping_in_parts result;
  CUDAL1_DRIVER(api->mem_reserve(&result.base_, all, 0, 0, 0));
  result.device_ = device;
  result.files_ = std::move(files);
  result.bytes_ = std::move(bytes);
  return result;
}

mapping_in_parts& mapping_in_parts::operator=(mapping_in_parts&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(device_, other.device_);
  std::swap(files_, other.files_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

mapping_in_parts::~mapping_in_parts() {
  if (base_ == 0) return;
  (void)map_first(0);
  if (const auto api = driver_api())
    (void)(*api)->mem_free_address(base_, static_cast<std::size_t>(at(bytes_.size()) - base_));
}

CUdeviceptr mapping_in_parts::at(std::size_t part) const {
  CUdeviceptr address = base_;
  for (std::size_t i = 0; i < part; ++i)
    address += static_cast<CUdeviceptr>(bytes_[i]);
  return address;
}

expected<void> mapping_in_parts::map_first(std::size_t parts) {
  CUDAL1_TRY(const auto* const api, driver_api());
  const beside_captures mode;
  for (; mapped_ < parts; ++mapped_)
    CUDAL1_CHECK(map_at(at(mapped_), static_cast<std::size_t>(bytes_[mapped_]), files_[mapped_].get(), device_,
                        memory_access::read_write));
  for (; mapped_ > parts; --mapped_)
    CUDAL1_DRIVER(api->mem_unmap(at(mapped_ - 1), static_cast<std::size_t>(bytes_[mapped_ - 1])));
  return {};
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
