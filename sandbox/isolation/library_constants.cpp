#include "sandbox/isolation/library_constants.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include <link.h>
#include <sys/mman.h>

#include "sandbox/isolation/shared_memory.hpp"

namespace cudal1 {
namespace {

constexpr uintptr_t page = 4096, large_page = uintptr_t{2} << 20;

struct library {
  uintptr_t base;
  std::span<const ElfW(Phdr)> segments;
};

std::vector<library> loaded_libraries() {
  std::vector<library> all;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* list) {
        static_cast<std::vector<library>*>(list)->push_back({info->dlpi_addr, {info->dlpi_phdr, info->dlpi_phnum}});
        return 0;
      },
      &all);
  return all;
}

// Whole pages of the segments that are readable only. What linkers put behind the table of exception frames, half of
// LibTorch's, is for unwinding.
std::vector<std::span<std::byte>> constants_of(const library& l) {
  uintptr_t frames = 0;
  for (const auto& s : l.segments)
    if (s.p_type == PT_GNU_EH_FRAME) frames = l.base + s.p_vaddr;
  std::vector<std::span<std::byte>> result;
  for (const auto& s : l.segments) {
    if (s.p_type != PT_LOAD || s.p_flags != PF_R) continue;
    const uintptr_t begin = (l.base + s.p_vaddr) / page * page;
    uintptr_t end = l.base + s.p_vaddr + s.p_memsz;
    if (begin <= frames && frames < end) end = frames;
    auto* const first = reinterpret_cast<std::byte*>(begin);  // NOLINT(performance-no-int-to-ptr): the loader's number
    if (begin < end) result.emplace_back(first, (end - begin + page - 1) / page * page);
  }
  return result;
}

expected<void> replace_by_copy(std::span<std::byte> constants) {
  const auto fail_at = [&](const char* what) {
    return fail(errc::infrastructure, "copying {} bytes of a library's constants: {}: {}", constants.size(), what,
                std::strerror(errno));
  };
  // At the same offset in a large page, so that a large page can be moved as one.
  const std::size_t room = constants.size() + 2 * large_page;
  void* const reserved = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return fail_at("mmap");
  const mapping owned(reserved, room);
  const auto to_large_page = large_page - reinterpret_cast<uintptr_t>(reserved) % large_page;
  void* const copy =
      static_cast<std::byte*>(reserved) + to_large_page + reinterpret_cast<uintptr_t>(constants.data()) % large_page;
  if (::mprotect(copy, constants.size(), PROT_READ | PROT_WRITE) != 0) return fail_at("mprotect");
  ::madvise(copy, constants.size(), MADV_HUGEPAGE);  // systems without large pages go on with small ones
  std::memcpy(copy, constants.data(), constants.size());
  if (::mprotect(copy, constants.size(), PROT_READ) != 0) return fail_at("mprotect");
  if (::mremap(copy, constants.size(), constants.size(), MREMAP_MAYMOVE | MREMAP_FIXED, constants.data()) == MAP_FAILED)
    return fail_at("mremap");
  return {};
}

std::vector<std::span<std::byte>>& kept() {
  static std::vector<std::span<std::byte>> all;
  return all;
}

}  // namespace

expected<void> keep_constants_over_forks() {
  for (const auto& l : loaded_libraries())
    for (const auto constants : constants_of(l)) {
      CUDAL1_CHECK(replace_by_copy(constants));
      kept().push_back(constants);
    }
  return {};
}

void read_kept_constants() {
  for (const auto constants : kept())
    for (std::size_t at = 0; at < constants.size(); at += page)
      (void)*static_cast<const volatile std::byte*>(&constants[at]);
}

}  // namespace cudal1
