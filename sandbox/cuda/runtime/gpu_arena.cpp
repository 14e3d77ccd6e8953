#include "sandbox/cuda/runtime/gpu_arena.hpp"

#include <algorithm>
#include <utility>

#include "config/base/split_mix.hpp"

namespace cudal1 {
namespace {

constexpr std::size_t word = 8;

std::size_t rounded(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

uint64_t mixed(uint64_t x) {
  return split_mix(x + split_mix_step);
}

// The range in which addresses change from call to call.
std::size_t rotation_span(std::size_t size) {
  return std::clamp<std::size_t>(size / 64, device_arena::alignment, std::size_t{32} << 20);
}

}  // namespace

void range_set::add(std::size_t from, std::size_t to) {
  if (from >= to) return;
  auto next = ranges_.upper_bound(from);
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->second >= from) {
      from = before->first;
      to = std::max(to, before->second);
      next = ranges_.erase(before);
    }
  }
  while (next != ranges_.end() && next->first <= to) {
    to = std::max(to, next->second);
    next = ranges_.erase(next);
  }
  ranges_.emplace_hint(next, from, to);
}

void range_set::remove(std::size_t from, std::size_t to) {
  if (from >= to) return;
  auto at = ranges_.upper_bound(from);
  if (at != ranges_.begin()) --at;
  while (at != ranges_.end() && at->first < to) {
    const auto [first, end] = *at;
    if (end <= from) {
      ++at;
      continue;
    }
    at = ranges_.erase(at);
    if (first < from) ranges_.emplace(first, from);
    if (end > to) ranges_.emplace(to, end);
  }
}

range_set::ranges_by_start range_set::gaps_in(std::size_t from, std::size_t to) const {
  range_set gaps;
  if (from < to) gaps.ranges_.emplace(from, to);
  auto at = ranges_.upper_bound(from);
  if (at != ranges_.begin()) --at;
  for (; at != ranges_.end() && at->first < to; ++at)
    gaps.remove(at->first, at->second);
  return gaps.ranges_;
}

device_arena::device_arena(std::byte* base, const std::vector<std::size_t>& parts, poisoner poison, part_mapper map)
    : base_(base), size_(0), poison_(std::move(poison)), map_(std::move(map)) {
  for (const std::size_t part : parts)
    ends_.push_back(size_ += part);
  kept_ = stale_ = lowest_kept_ = reached_ = limit();
}

// The lowest fit at or above this call's start, else the lowest of all.
bool device_arena::place(std::size_t extent, const range_set& taken, std::size_t& offset) const {
  for (const std::size_t from : {start_, std::size_t{0}}) {
    std::size_t at = from;
    auto next = taken.ranges().upper_bound(at);
    if (next != taken.ranges().begin()) at = std::max(at, std::prev(next)->second);
    for (; next != taken.ranges().end() && next->first - at < extent; ++next)
      at = next->second;
    if (at + extent <= kept_) {
      offset = at;
      return true;
    }
  }
  return false;
}

bool device_arena::find_place(std::size_t extent, std::size_t& offset) const {
  if (!capturing_ || !apart_) return place(extent, taken_, offset);
  range_set unused = taken_;
  for (const auto& [from, to] : captured_.ranges())
    unused.add(from, to);
  return place(extent, unused, offset);
}

// Copies that are kept stay where they are, as a block that lasts until they are let go. In a capture nothing can be
// poisoned: it is then unknown what is left untouched.
bool device_arena::grow() {
  if (parts_ == ends_.size() || !map_(parts_ + 1)) return false;
  const std::size_t before = limit();
  stranded_.add(kept_, before);
  taken_.add(kept_, before);
  lasting_.add(kept_, before);
  ++parts_;
  kept_ = stale_ = lowest_kept_ = limit();
  reached_ = capturing_ ? limit() : std::max(reached_, before);
  const std::pair grown(before, limit());
  return capturing_ || poison({&grown, 1}, wipe_seed_).has_value();
}

expected<void> device_arena::wipe(uint64_t seed) {
  drop_kept();
  while (parts_ > 1 && taken_.end() <= part_begin())
    --parts_;
  if (map_) CUDAL1_CHECK(map_(parts_));
  kept_ = stale_ = lowest_kept_ = limit();
  wipe_seed_ = mixed(seed);
  prepared_ = 0;
  highest_ = reached_ = taken_.end();
  const std::pair all(std::size_t{0}, limit());
  return poison({&all, 1}, wipe_seed_);
}

std::vector<word_range> device_arena::untouched() const {
  if (reached_ >= lowest_kept_) return {};
  return {{reached_ / word, (lowest_kept_ - reached_) / word}};
}

expected<void> device_arena::poison(std::span<const std::pair<std::size_t, std::size_t>> ranges, uint64_t seed) {
  std::vector<word_range> words;
  for (const auto& [from, to] : ranges)
    if (from < to) words.push_back({from / word, (to - from) / word});
  return words.empty() ? expected<void>() : poison_(words, seed);
}

// An upper bound for the end of this call's blocks, packed from its start on, if it needs no more than the calls
// before. A hole too small for the largest block may stay empty, and so may as much at the end of a larger hole.
std::size_t device_arena::end_of_need() const {
  std::size_t left = need_;
  for (const auto& [from, to] : taken_.gaps_in(start_, size_)) {
    const std::size_t room = to - from;
    if (to == size_ || room >= left + widest_) return std::min(size_, from + left);
    left -= std::min(left, room - std::min(room, widest_));
  }
  return size_;
}

void device_arena::note_need() {
  if (!counts_) return;
  std::size_t bytes = 0;
  for (const auto& [from, to] : taken_before_.gaps_in(start_, std::max(start_, top_)))
    bytes += to - from;
  need_ = std::max(need_, bytes);
}

void* device_arena::allocate(std::size_t bytes) {
  if (bytes == 0 || bytes > size_) return nullptr;
  const std::size_t extent = rounded(bytes, alignment) + gap;
  std::size_t offset = 0;
  while (!find_place(extent, offset))
    if (!grow()) return nullptr;
  // Not in a capture, since the poison would be replayed: begin_call() prepares the memory of graphs.
  if (!capturing_ && offset + extent > prepared_) {
    const std::pair missing(std::max(offset, prepared_), offset + extent);
    if (!poison({&missing, 1}, seed_)) return nullptr;
    ++late_;
    if (offset <= prepared_) prepared_ = offset + extent;
  }
  taken_.add(offset, offset + extent);
  used_.add(offset, offset + rounded(bytes, word));
  if (capturing_) captured_.add(offset, offset + extent);
  blocks_.emplace(offset, block{bytes, extent});
  highest_ = std::max(highest_, offset + extent);
  reached_ = std::max(reached_, offset + extent);
  top_ = std::max(top_, offset + extent);
  if (counts_) widest_ = std::max(widest_, extent);
  in_use_ += bytes;
  return base_ + offset;
}

void device_arena::release(void* data) {
  if (data == nullptr) return;
  if (keeping_) {
    released_.push_back(data);
    return;
  }
  const auto found = blocks_.find(static_cast<std::size_t>(offset_of(data)));
  if (found == blocks_.end()) return;
  const auto& [offset, b] = *found;
  taken_.remove(offset, offset + b.extent);
  if (b.lasting) lasting_.remove(offset, offset + rounded(b.bytes, word));
  in_use_ -= b.bytes;
  blocks_.erase(found);
}

void device_arena::reuse_released() {
  keeping_ = false;
  for (void* const data : std::exchange(released_, {}))
    release(data);
}

expected<void> device_arena::begin_call(uint64_t seed, call_need need) {
  note_need();
  seed_ = mixed(seed);
  for (auto& [offset, b] : blocks_) {
    if (b.lasting) continue;
    b.lasting = true;
    lasting_.add(offset, offset + rounded(b.bytes, word));
  }
  start_ = mixed(seed_) % (rotation_span(size_) / alignment) * alignment;
  // Includes what the last call left, and the blocks that stay.
  const std::size_t reach = std::max({end_of_need(), highest_, taken_.end()}) + gap;
  while (reach > kept_ && grow()) {
  }
  prepared_ = std::min(kept_, rounded(reach, alignment));
  reached_ = std::max(reached_, prepared_);
  const auto free = lasting_.gaps_in(0, prepared_);
  std::vector<std::pair<std::size_t, std::size_t>> ranges(free.begin(), free.end());
  ranges.emplace_back(stale_, std::max(stale_, kept_));
  CUDAL1_CHECK(poison(ranges, seed_));
  stale_ = kept_;
  used_.clear();
  highest_ = taken_.end();
  top_ = late_ = 0;
  counts_ = need == call_need::counted;
  taken_before_ = taken_;
  return {};
}

std::vector<word_range> device_arena::guards() const {
  range_set mine = used_;
  for (const auto& [from, to] : lasting_.ranges())
    mine.add(from, to);
  std::vector<word_range> guards;
  for (const auto& [from, to] : mine.gaps_in(0, prepared_))
    guards.push_back({from / word, (to - from) / word});
  return guards;
}

std::string guard_damage::text() const {
  if (words == 0) return "";
  return fmt::format(
      "{} bytes (in words of 8) that belong to no tensor of the call were overwritten, the first at offset {} of the "
      "runner's memory",
      words * word, first * word);
}

void* device_arena::keep(std::size_t bytes) {
  const std::size_t extent = rounded(bytes, alignment);
  const auto fits = [&] { return extent <= kept_ && kept_ - extent >= std::max({prepared_, highest_, part_begin()}); };
  while (!fits())
    if (!grow()) return nullptr;
  kept_ -= extent;
  stale_ = std::min(stale_, kept_);
  lowest_kept_ = std::min(lowest_kept_, kept_);
  return base_ + kept_;
}

void device_arena::drop_kept() {
  for (const auto& [from, to] : stranded_.ranges()) {
    taken_.remove(from, to);
    lasting_.remove(from, to);
    highest_ = std::max(highest_, to);  // so that it is poisoned with what the last call left
  }
  stranded_.clear();
  kept_ = limit();
}

std::map<std::size_t, device_arena::block>::const_iterator device_arena::find_block(const void* at) const {
  const auto offset = static_cast<std::size_t>(offset_of(at));
  auto found = blocks_.upper_bound(offset);
  if (!owns(at) || found == blocks_.begin()) return blocks_.end();
  --found;
  return offset < found->first + found->second.bytes ? found : blocks_.end();
}

std::span<std::byte> device_arena::block_of(const void* at) const {
  const auto found = find_block(at);
  if (found == blocks_.end()) return {};
  return {base_ + found->first, found->second.bytes};
}

void device_arena::begin_capture() {
  capturing_ = true;
  captured_.clear();
  used_.clear();
}

device_arena::held_memory device_arena::end_capture() {
  capturing_ = false;
  held_memory held;
  // Blocks that outlive the capture (a library's workspace) are ordinary blocks.
  range_set still = {};
  for (const auto& [offset, b] : blocks_)
    still.add(offset, offset + b.extent);
  for (const auto& [from, to] : captured_.ranges())
    for (const auto& [a, b] : still.gaps_in(from, to)) {
      held.extents.add(a, b);
      taken_.add(a, b);
    }
  held.payload = used_;
  return held;
}

void device_arena::give_back(const held_memory& held) {
  for (const auto& [from, to] : held.extents.ranges())
    taken_.remove(from, to);
}

void device_arena::use(const held_memory& held) {
  for (const auto& [from, to] : held.payload.ranges())
    used_.add(from, to);
}

bool device_arena::owns(const void* at) const {
  const auto* p = static_cast<const std::byte*>(at);
  return p >= base_ && p < base_ + size_;
}

}  // namespace cudal1
