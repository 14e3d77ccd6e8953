// Installs the arena as c10's CPU allocator.
#include <atomic>
#include <memory>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include "sandbox/interpreter/tensor_arena.hpp"

namespace cudal1 {

namespace {

// Lives until the process ends: tensors may be released by static destructors.
std::atomic<arena*> the_arena = nullptr;
thread_local const char* allocation_label = nullptr;

void release_block(void* data) {
  the_arena.load(std::memory_order_acquire)->release(data);
}

class arena_allocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    auto* memory = the_arena.load(std::memory_order_acquire);
    bool had_room = true;
    void* data = memory->allocate(bytes, allocation_label, had_room);
    TORCH_CHECK_WITH(OutOfMemoryError, had_room, "an allocation of ", bytes, " bytes failed with ",
                     memory->bytes_in_use(), " of ", memory->bytes(), " in use");
    return {data, data, &release_block, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
};

}  // namespace

arena* installed_arena() {
  return the_arena.load(std::memory_order_acquire);
}

void set_allocation_label(const char* label) {
  allocation_label = label;
}

expected<void> install_arena(const arena_options& options) {
  if (installed_arena()) return fail(errc::already_exists, "this process already has an arena");
  if (!options.base || reinterpret_cast<uintptr_t>(options.base) % 4096 != 0)
    return fail(errc::invalid_argument, "the arena needs a page-aligned mapping");
  if (options.bytes < 1 << 16)
    return fail(errc::invalid_argument, "an arena of {} bytes is too small: it needs at least 64 KiB", options.bytes);
  the_arena.store(new arena(options), std::memory_order_release);
  static arena_allocator allocator;
  c10::SetCPUAllocator(&allocator, 100);  // a higher priority than LibTorch's allocators have
  return {};
}

void arena_begin_call(uint64_t poison_seed) {
  if (auto* memory = installed_arena()) memory->begin_call(poison_seed);
}

void arena_begin_lasting() {
  if (auto* memory = installed_arena()) memory->begin_lasting();
}

expected<void> arena_end_lasting() {
  auto* memory = installed_arena();
  if (memory == nullptr || memory->end_lasting()) return {};
  return fail(errc::infrastructure, "the tensors of setup steps cannot be made read-only (mprotect was refused)");
}

guard_report arena_check_guards() {
  auto* memory = installed_arena();
  return memory ? memory->check_guards() : guard_report{};
}

int64_t arena_bytes_in_use() {
  auto* memory = installed_arena();
  return memory ? memory->bytes_in_use() : 0;
}

int64_t arena_peak_bytes() {
  auto* memory = installed_arena();
  return memory ? memory->peak_bytes() : 0;
}

}  // namespace cudal1
