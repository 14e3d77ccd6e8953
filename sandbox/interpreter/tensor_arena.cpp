#include "sandbox/interpreter/tensor_arena.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include <fmt/format.h>
#include <sys/mman.h>

#include "config/base/split_mix.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t page = 4096;
using pattern_page = std::array<uint64_t, page / sizeof(uint64_t)>;

std::size_t rounded(std::size_t bytes, std::size_t to = arena::alignment) {
  return (bytes + to - 1) / to * to;
}

uint64_t mixed(uint64_t x) {
  return split_mix(x + split_mix_step);
}

// The content of newly allocated memory: NaNs with a payload, large finite numbers, or noise, depending on the seed.
// Two seeds of the same kind also differ, so that outputs that depend on poison do not repeat.
pattern_page poison_page(uint64_t seed) {
  const uint64_t varied = mixed(seed) & 0x000000ff000000ff;
  pattern_page words;
  for (std::size_t i = 0; i < words.size(); ++i) {
    switch (seed % 3) {
      case 0:
        words[i] = 0x7fc0dead7fc0dead ^ varied;  // float: NaN
        break;
      case 1:
        words[i] = 0x7e9676997e967699 ^ varied;  // float: 1e38
        break;
      default:
        words[i] = mixed(seed + i);
    }
  }
  return words;
}

// Bypasses the caches: writing cached poison back to memory would slow down a timed call. Small writes, which occur
// within calls, are cached.
void write_past_caches(char* to, const char* from, std::size_t bytes) {
#if defined(__x86_64__)
  const bool cached = bytes < page / 4;
  const std::size_t streamed =
      !cached && reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0 ? bytes / sizeof(__m128i) : 0;
  for (std::size_t i = 0; i < streamed; ++i)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from) + i));
  _mm_sfence();
  const std::size_t done = streamed * sizeof(__m128i);
  std::memcpy(to + done, from + done, bytes - done);
#else
  std::memcpy(to, from, bytes);
#endif
}

// The range in which addresses vary: many pages.
std::size_t rotation_span(std::size_t size) {
  return std::clamp<std::size_t>(size / 64, page, std::size_t{1} << 20) / arena::alignment * arena::alignment;
}

}  // namespace

arena::arena(const arena_options& options)
    : base_(static_cast<char*>(options.base)),
      size_(static_cast<std::size_t>(options.bytes) / page * page),
      poisons_(options.poison),
      seed_(mixed(options.poison_seed)),
      pattern_(poison_page(seed_)) {
  free_.emplace(0, size_);
  accessible_ = size_;
  if (poisons_ && ::mprotect(base_, size_, PROT_NONE) == 0) accessible_ = 0;
}

// The lowest fit at or above this call's start, else the lowest of all, so that a call soon reuses memory that it
// freed.
arena::gaps::iterator arena::find_gap(std::size_t extent, std::size_t& offset) {
  auto gap = free_.upper_bound(start_);
  if (gap != free_.begin()) --gap;
  for (auto g = gap; g != free_.end(); ++g) {
    offset = std::max(g->first, start_);
    if (g->first + g->second >= offset + extent) return g;
  }
  for (auto g = free_.begin(); g != free_.end(); ++g) {
    offset = g->first;
    if (g->second >= extent) return g;
  }
  return free_.end();
}

void arena::take(gaps::iterator gap, std::size_t offset, std::size_t extent) {
  const auto [from, size] = *gap;
  const std::size_t end = from + size;
  if (offset > from) {
    gap->second = offset - from;
  } else {
    free_.erase(gap);
  }
  if (offset + extent < end) free_.emplace(offset + extent, end - offset - extent);
}

void arena::give_back(std::size_t offset, std::size_t extent) {
  auto next = free_.lower_bound(offset);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      extent += before->second;
      free_.erase(before);
    }
  }
  if (next != free_.end() && offset + extent == next->first) {
    extent += next->second;
    next = free_.erase(next);
  }
  free_.emplace_hint(next, offset, extent);
}

void* arena::allocate(std::size_t bytes, const char* label, bool& had_room) {
  had_room = true;
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  had_room = bytes < size_;
  if (!had_room) return nullptr;
  std::size_t extent = guard_bytes + rounded(bytes) + guard_bytes;
  if (lasting_) extent = rounded(extent, page);
  std::size_t offset = 0;
  const auto gap = find_gap(extent + (lasting_ ? page : 0), offset);
  if (lasting_) offset = rounded(offset, page);
  had_room = gap != free_.end() && make_accessible(offset + extent);
  if (!had_room) return nullptr;
  take(gap, offset, extent);
  prepare(offset, extent);
  const block b{bytes, extent, mixed(seed_ ^ offset), label, lasting_ ? block::kind::lasting : block::kind::of_call};
  write_guards(offset, b);
  blocks_.emplace(offset, b);
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
  highest_ = std::max(highest_, offset + extent);
  return base_ + offset + guard_bytes;
}

void arena::release(void* data) {
  if (!data) return;
  const std::lock_guard lock(mutex_);
  const auto offset = static_cast<std::size_t>(static_cast<char*>(data) - base_) - guard_bytes;
  const auto found = blocks_.find(offset);
  if (found == blocks_.end()) return;
  const block b = found->second;
  if (problem_.empty()) problem_ = damage(offset, b);
  // A block that stays read-only must not be given to anybody else.
  if (b.is == block::kind::read_only && !set_access(offset, b, PROT_READ | PROT_WRITE)) return;
  blocks_.erase(found);
  in_use_ -= b.bytes;
  recycled_ = std::max(recycled_, offset + b.extent);
  give_back(offset, b.extent);
}

void arena::poison(std::size_t from, std::size_t to) {
  if (!poisons_) return;
  const auto* pattern = reinterpret_cast<const char*>(pattern_.data());
  while (from < to) {
    const std::size_t phase = from % page, count = std::min(to - from, page - phase);
    write_past_caches(base_ + from, pattern + phase, count);
    from += count;
  }
}

bool arena::make_accessible(std::size_t end) {
  end = rounded(end, page);
  if (end <= accessible_) return true;
  if (::mprotect(base_ + accessible_, end - accessible_, PROT_READ | PROT_WRITE) != 0) return false;
  accessible_ = end;
  return true;
}

bool arena::set_access(std::size_t offset, const block& b, int access) {
  return ::mprotect(base_ + offset, b.extent, access) == 0;
}

void arena::begin_lasting() {
  const std::lock_guard lock(mutex_);
  lasting_ = true;
}

bool arena::end_lasting() {
  const std::lock_guard lock(mutex_);
  lasting_ = false;
  for (auto& [offset, b] : blocks_) {
    if (b.is != block::kind::lasting) continue;
    if (!set_access(offset, b, PROT_READ)) return false;
    b.is = block::kind::read_only;
  }
  return true;
}

// Memory that this call has not used yet was poisoned by begin_call, or is now, with all below it. What the call itself
// used before gets a line of poison in each page: enough to be noticed, too little to be felt in a timed call.
void arena::prepare(std::size_t offset, std::size_t extent) {
  const std::size_t end = offset + extent;
  if (end > prepared_) {
    const std::size_t whole_pages = rounded(end, page);
    poison(prepared_, whole_pages);
    prepared_ = whole_pages;
  }
  if (offset < recycled_)
    for (std::size_t at = offset + guard_bytes; at + alignment <= end - guard_bytes; at += page)
      poison(at, at + alignment);
}

void arena::write_guards(std::size_t offset, const block& b) {
  const auto fill = [&](std::size_t from, std::size_t to) {
    for (std::size_t at = from; at < to; ++at)
      base_[at] = static_cast<char>(b.guard >> (at % 8 * 8));
  };
  fill(offset, offset + guard_bytes);
  fill(offset + guard_bytes + b.bytes, offset + b.extent);
}

std::string arena::damage(std::size_t offset, const block& b) const {
  const auto intact = [&](std::size_t at) { return base_[at] == static_cast<char>(b.guard >> (at % 8 * 8)); };
  const auto count = [&](std::size_t from, std::size_t to) {
    std::size_t wrong = 0;
    for (std::size_t at = from; at < to; ++at)
      wrong += intact(at) ? 0 : 1;
    return wrong;
  };
  const auto what = b.label ? b.label : "a tensor";
  if (const auto n = count(offset, offset + guard_bytes))
    return fmt::format("{} bytes before the start of the {} bytes of {} were overwritten", n, b.bytes, what);
  if (const auto n = count(offset + guard_bytes + b.bytes, offset + b.extent))
    return fmt::format("{} bytes after the end of the {} bytes of {} were overwritten", n, b.bytes, what);
  return {};
}

// Checks memory that was free throughout the call for its poison: finds writes beyond the guards.
std::string arena::stray_writes() const {
  const auto* pattern = reinterpret_cast<const char*>(pattern_.data());
  for (const auto& [offset, extent] : free_) {
    const std::size_t end = std::min(offset + extent, prepared_);
    for (std::size_t at = std::max(offset, recycled_); at < end;) {
      const std::size_t phase = at % page, count = std::min(end - at, page - phase);
      if (std::memcmp(base_ + at, pattern + phase, count) != 0)
        return "memory that belongs to no tensor was overwritten";
      at += count;
    }
  }
  return {};
}

void arena::begin_call(uint64_t seed) {
  const std::lock_guard lock(mutex_);
  const std::size_t reach = highest_;  // of the call before, as an estimate for the next one
  seed_ = mixed(seed);
  pattern_ = poison_page(seed_);
  const std::size_t span = rotation_span(size_);
  const std::size_t was = start_;
  start_ = mixed(seed_) % (span / alignment) * alignment;
  prepared_ = std::min(size_, (reach + (start_ > was ? start_ - was : 0) + page) / page * page + page);
  if (!make_accessible(prepared_)) prepared_ = accessible_;
  for (const auto& [offset, extent] : free_)
    if (offset < prepared_) poison(offset, std::min(offset + extent, prepared_));
  // Drops the content of all memory above, so that no call can find data of an earlier one there. An access to it
  // faults until an allocation reaches it.
  if (prepared_ < accessible_) {
    (void)::madvise(base_ + prepared_, accessible_ - prepared_, MADV_REMOVE);
    if (poisons_ && ::mprotect(base_ + prepared_, accessible_ - prepared_, PROT_NONE) == 0) accessible_ = prepared_;
  }
  recycled_ = 0;
  highest_ = 0;
  for (const auto& [offset, b] : blocks_)
    highest_ = std::max(highest_, offset + b.extent);
  peak_ = in_use_;
  problem_.clear();
}

guard_report arena::check_guards() {
  const std::lock_guard lock(mutex_);
  for (const auto& [offset, b] : blocks_)
    if (problem_.empty()) problem_ = damage(offset, b);
  if (problem_.empty() && poisons_) problem_ = stray_writes();
  return {problem_.empty(), problem_};
}

int64_t arena::bytes_in_use() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(in_use_);
}

int64_t arena::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(peak_);
}

}  // namespace cudal1
