// The memory of a worker's tensors: blocks in one given mapping, with guards on both sides, poisoned before use, at
// addresses that change from call to call. The records of blocks are outside the mapping. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

class arena {
 public:
  static constexpr std::size_t alignment = 64;    // required by ATen
  static constexpr std::size_t guard_bytes = 64;  // before a block; at least as many after it

  explicit arena(const arena_options& options);

  // Null for 0 bytes, and null with `had_room` false if no gap is large enough. `label` must outlive the block.
  void* allocate(std::size_t bytes, const char* label, bool& had_room);
  // `data`: a block of this arena, or null.
  void release(void* data);

  void begin_call(uint64_t seed);
  // Blocks that are allocated between these two get whole pages; those that still live at the end can only be read from
  // then on, until they are released. False if the system refuses that.
  void begin_lasting();
  bool end_lasting();
  // The first damage since begin_call, to live blocks or to those released since then.
  guard_report check_guards();
  int64_t bytes_in_use() const;
  int64_t peak_bytes() const;  // since begin_call
  int64_t bytes() const { return static_cast<int64_t>(size_); }

 private:
  struct block {
    std::size_t bytes = 0;   // requested
    std::size_t extent = 0;  // with guards and padding
    uint64_t guard = 0;      // the pattern of its guards
    const char* label = nullptr;
    enum class kind { of_call, lasting, read_only } is = kind::of_call;
  };
  // Offsets into the mapping, free and disjoint, never adjacent: offset -> size.
  using gaps = std::map<std::size_t, std::size_t>;

  gaps::iterator find_gap(std::size_t extent, std::size_t& offset);
  bool set_access(std::size_t offset, const block& b, int access);
  void take(gaps::iterator gap, std::size_t offset, std::size_t extent);
  void give_back(std::size_t offset, std::size_t extent);
  bool make_accessible(std::size_t end);
  void prepare(std::size_t offset, std::size_t extent);
  void poison(std::size_t from, std::size_t to);
  void write_guards(std::size_t offset, const block& b);
  std::string damage(std::size_t offset, const block& b) const;
  std::string stray_writes() const;

  mutable std::mutex mutex_;
  char* base_;
  std::size_t size_;
  bool poisons_;
  bool lasting_ = false;  // between begin_lasting() and end_lasting()
  gaps free_;
  std::unordered_map<std::size_t, block> blocks_;  // by the offset of the block's first guard
  uint64_t seed_;
  std::array<uint64_t, 512> pattern_;  // one page of this call's poison
  std::size_t start_ = 0;              // allocations of this call search from here
  std::size_t prepared_ = 0;           // below this, memory that no block of this call has used is poisoned
  std::size_t accessible_ = 0;         // above this, an access faults; whole pages
  std::size_t recycled_ = 0;           // below this, memory may have been used in this call
  std::size_t highest_ = 0;            // end of the highest block of this call
  std::size_t in_use_ = 0, peak_ = 0;
  std::string problem_;
};

// The process's arena, or null before install_arena.
arena* installed_arena();
// Labels this thread's allocations in reports with the current step.
void set_allocation_label(const char* label);

}  // namespace cudal1
