#include "sandbox/isolation/shared_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace cudal1 {
namespace {

constexpr int64_t page = 4096;
constexpr int64_t alignment = 64;  // of a tensor's first byte, for vector code

int64_t round_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

expected<mapping> map_memory(int64_t bytes, int protection, int flags, int fd, const char* what) {
  void* base = ::mmap(nullptr, static_cast<std::size_t>(bytes), protection, flags, fd, 0);
  if (base == MAP_FAILED)
    return fail(errc::infrastructure, "{}: mmap of {} bytes: {}", what, bytes, std::strerror(errno));
  return mapping(base, static_cast<std::size_t>(bytes));
}

}  // namespace

mapping::~mapping() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

expected<unique_fd> make_shared_memory(const char* name, int64_t bytes) {
  unique_fd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail(errc::infrastructure, "{}: memfd_create: {}", name, std::strerror(errno));
  if (::ftruncate(fd.get(), bytes) != 0)
    return fail(errc::infrastructure, "{}: {} bytes: {}", name, bytes, std::strerror(errno));
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)
    return fail(errc::infrastructure, "{}: sealing the size: {}", name, std::strerror(errno));
  return fd;
}

expected<void> seal_content(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return fail(errc::infrastructure, "sealing the content: {}", std::strerror(errno));
  return {};
}

expected<void> seal_for_others(int fd) {
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
    return fail(errc::infrastructure, "sealing against other writers: {}", std::strerror(errno));
  return {};
}

expected<unique_fd> make_sealed_file(const char* name, std::string_view content) {
  CUDAL1_TRY(unique_fd fd, make_shared_memory(name, static_cast<int64_t>(content.size())));
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t n = ::pwrite(fd.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n <= 0) return fail(errc::infrastructure, "{}: write: {}", name, std::strerror(errno));
    done += static_cast<std::size_t>(n);
  }
  CUDAL1_CHECK(seal_content(fd.get()));
  return fd;
}

expected<int64_t> sealed_size(int fd) {
  constexpr int wanted = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & wanted) != wanted) return fail(errc::refused, "a file in memory is not sealed");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail(errc::io_error, "fstat: {}", std::strerror(errno));
  return status.st_size;
}

expected<mapping> map_shared(int fd, int64_t bytes, memory_access access, paging when) {
  return map_memory(bytes, access == memory_access::read_write ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_SHARED | (when == paging::at_once ? MAP_POPULATE : 0), fd, "shared memory");
}

expected<mapping> map_private(int64_t bytes) {
  CUDAL1_TRY(mapping memory, map_memory(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                                        "private memory"));
  constexpr int64_t large = int64_t{16} << 20;
  if (bytes >= large) ::madvise(memory.data(), memory.size(), MADV_HUGEPAGE);  // optional: failure is ignored
  return memory;
}

tensor_layout layout_of(std::span<const tensor_type> types) {
  tensor_layout layout;
  for (const auto& type : types) {
    tensor_place place;
    place.file_offset = layout.file_bytes;
    place.bytes = type.storage_bytes();
    place.pages_bytes = std::max(round_up(place.bytes, page), page);
    place.data_offset = place.pages_bytes - std::max(round_up(place.bytes, alignment), alignment);
    layout.file_bytes += place.pages_bytes;
    layout.places.push_back(place);
  }
  layout.file_bytes = std::max(layout.file_bytes, page);
  return layout;
}

expected<mapped_tensors> mapped_tensors::map(int fd, const tensor_layout& layout, int64_t shift_pages) {
  const int64_t span = layout.file_bytes + page * (static_cast<int64_t>(layout.places.size()) + 1 + shift_pages);
  mapped_tensors result;
  CUDAL1_TRY(result.whole_, map_memory(span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, "a draw"));
  std::byte* at = result.whole_.data() + page * (1 + shift_pages);
  for (const auto& place : layout.places) {
    // Private and read-only: a page of the sealed file itself, which this process cannot modify.
    void* got = ::mmap(at, static_cast<std::size_t>(place.pages_bytes), PROT_READ,
                       MAP_PRIVATE | MAP_FIXED | MAP_POPULATE, fd, place.file_offset);
    if (got == MAP_FAILED)
      return fail(errc::infrastructure, "a draw: mmap of {} bytes: {}", place.pages_bytes, std::strerror(errno));
    result.first_page_.push_back(at);
    result.data_.push_back(at + place.data_offset);
    at += place.pages_bytes + page;
    result.guard_end_.push_back(at);
  }
  return result;
}

int mapped_tensors::find(const void* address) const noexcept {
  for (std::size_t i = 0; i < data_.size(); ++i)
    if (address >= first_page_[i] && address < guard_end_[i]) return static_cast<int>(i);
  return -1;
}

}  // namespace cudal1
