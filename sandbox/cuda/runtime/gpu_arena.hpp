// The memory of a GPU runner's tensors: blocks in one mapping, poisoned before each call, with guard gaps between them,
// at addresses that change from call to call. The book-keeping is on the host and needs no GPU: the device's memory is
// written through a function. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/base/error.hpp"

namespace cudal1 {

// Half-open ranges, disjoint and merged: start -> end.
class range_set {
 public:
  using ranges_by_start = std::map<std::size_t, std::size_t>;
  void add(std::size_t from, std::size_t to);
  void remove(std::size_t from, std::size_t to);
  void clear() { ranges_.clear(); }
  bool empty() const { return ranges_.empty(); }
  // The parts of [from, to) that are not in the set.
  ranges_by_start gaps_in(std::size_t from, std::size_t to) const;
  std::size_t end() const { return ranges_.empty() ? 0 : ranges_.rbegin()->second; }
  const ranges_by_start& ranges() const { return ranges_; }

 private:
  ranges_by_start ranges_;
};

// Memory of the arena: words of 8 bytes, counted from its start.
struct word_range {
  std::size_t first = 0, words = 0;
};
// Enqueues writes of poison, before all later work on the device.
using poisoner = std::function<expected<void>(std::span<const word_range> ranges, uint64_t seed)>;
// Makes so many of the arena's parts accessible, the first ones, and no other. Nothing may be at work in a part that
// goes.
using part_mapper = std::function<expected<void>(std::size_t parts)>;
// How many words of guards no longer hold their poison, and the first of them.
struct guard_damage {
  std::size_t words = 0, first = 0;
  std::string text() const;  // "" without damage
};

// Whether a call's need of memory counts for what is poisoned before later ones.
enum class call_need { counted, not_counted };

class device_arena {
 public:
  static constexpr std::size_t alignment = 512;  // as in LibTorch's own allocator
  static constexpr std::size_t gap = 512;        // the least number of bytes between two blocks

  device_arena(std::byte* base, std::size_t bytes, poisoner poison)
      : device_arena(base, std::vector<std::size_t>{bytes / alignment * alignment}, std::move(poison), {}) {}
  // In parts, that follow each other: the first is accessible, the others become so when they are needed.
  device_arena(std::byte* base, const std::vector<std::size_t>& parts, poisoner poison, part_mapper map);

  // Null if out of memory. Empty blocks are null too and need no release.
  void* allocate(std::size_t bytes);
  void release(void* data);
  // Between these two, released blocks are not reused, because several streams are at work.
  void keep_released() { keeping_ = true; }
  void reuse_released();

  // Between calls, when no tensor of a call is alive: blocks that still are (libraries' workspaces, results of setup)
  // keep their content from now on. Everything else is poisoned, and the next blocks get other addresses. As much is
  // poisoned as the largest call since forget_needs() took, of any program: a call that takes more than the one before
  // would otherwise poison the rest while it is timed.
  expected<void> begin_call(uint64_t seed, call_need need = call_need::counted);
  void forget_needs() { need_ = widest_ = 0; }
  // Before another program runs, when nothing is at work: all of this memory that is accessible is overwritten, also
  // the blocks that still live, whose owners write them again where their content matters. Parts that hold no block are
  // not accessible any more. What no call takes afterwards keeps this poison.
  expected<void> wipe(uint64_t seed);
  std::vector<word_range> untouched() const;
  uint64_t wipe_seed() const { return wipe_seed_; }

  // How many of this call's blocks were poisoned when they were allocated, because begin_call() had poisoned too
  // little.
  std::size_t late_blocks() const { return late_; }
  // The memory that must still hold this call's poison when it has ended: everything outside its blocks.
  std::vector<word_range> guards() const;
  uint64_t poison_seed() const { return seed_; }

  // Memory at the arena's end for copies of outputs, reserved until it is let go; null if out of memory. The next
  // begin_call() poisons what was let go.
  void* keep(std::size_t bytes);
  std::size_t kept_mark() const { return kept_; }
  void drop_kept_to(std::size_t mark) {
    kept_ = mark <= part_begin() ? limit() : mark;
  }  // or the arena has grown since
  void drop_kept();

  // The memory of a captured graph: it is not reused until it is given back, and belongs to the calls that replay it.
  struct held_memory {
    range_set extents, payload;
  };
  void begin_capture();
  held_memory end_capture();  // after the tensors of the capture were released
  void give_back(const held_memory& held);
  // Blocks of a capture that are allocated between these two lie where no other block of it lay before: while they
  // live, a pointer there is one to them.
  void begin_apart() { apart_ = true; }
  void end_apart() { apart_ = false; }
  // The bytes of the block that holds an address; empty if there is none.
  std::span<std::byte> block_of(const void* at) const;
  // This call replays a graph with that memory.
  void use(const held_memory& held);

  bool owns(const void* at) const;
  int64_t offset_of(const void* at) const { return static_cast<const std::byte*>(at) - base_; }
  std::size_t bytes() const { return size_; }
  std::size_t bytes_in_use() const { return in_use_; }

 private:
  struct block {
    std::size_t bytes = 0, extent = 0;
    bool lasting = false;
  };
  std::map<std::size_t, block>::const_iterator find_block(const void* at) const;
  bool place(std::size_t extent, const range_set& taken, std::size_t& offset) const;
  expected<void> poison(std::span<const std::pair<std::size_t, std::size_t>> ranges, uint64_t seed);
  bool find_place(std::size_t extent, std::size_t& offset) const;
  bool grow();
  std::size_t limit() const { return ends_[parts_ - 1]; }
  std::size_t part_begin() const { return parts_ == 1 ? 0 : ends_[parts_ - 2]; }  // of the last accessible part
  std::size_t end_of_need() const;
  void note_need();

  std::byte* base_;
  std::size_t size_;
  poisoner poison_;
  std::vector<std::size_t> ends_;  // of the parts
  part_mapper map_;
  std::size_t parts_ = 1;                // so many are accessible
  std::map<std::size_t, block> blocks_;  // by offset of the payload
  range_set taken_;                      // extents of blocks and of held memory
  range_set lasting_;                    // payloads that keep their content
  range_set used_;                       // payloads of this call, also of blocks that were released
  range_set captured_;                   // extents of the capture in progress
  bool capturing_ = false, apart_ = false;
  bool keeping_ = false;
  std::vector<void*> released_;  // while keeping_
  uint64_t seed_ = 0;
  std::size_t start_ = 0;     // this call's blocks begin here
  std::size_t prepared_ = 0;  // below this, free memory is poisoned
  std::size_t highest_ = 0, in_use_ = 0;
  std::size_t kept_ = 0, stale_ = 0;  // memory from here on is kept; was kept and not poisoned since
  range_set stranded_;                // kept, before the arena grew
  uint64_t wipe_seed_ = 0;
  std::size_t reached_ = 0, lowest_kept_ = 0;  // between these nothing was taken or kept since all was wiped

  // What calls need: bytes beyond their start that were free when they began, and the largest block.
  std::size_t need_ = 0, widest_ = 0;
  bool counts_ = false;
  std::size_t late_ = 0;
  std::size_t top_ = 0;     // end of this call's highest block
  range_set taken_before_;  // when this call began
};

}  // namespace cudal1
