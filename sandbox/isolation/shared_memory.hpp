// Memory that processes share: sealed memory files (memfd), and the layout of a draw's tensors in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/base/error.hpp"
#include "config/base/memory_access.hpp"
#include "config/base/unique_fd.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

// An owned range of mapped memory.
class mapping {
 public:
  mapping() = default;
  mapping(void* base, std::size_t bytes) : base_(base), bytes_(bytes) {}
  mapping(mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  mapping& operator=(mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  mapping(const mapping&) = delete;
  mapping& operator=(const mapping&) = delete;
  ~mapping();

  std::byte* data() const { return static_cast<std::byte*>(base_); }
  std::size_t size() const { return bytes_; }
  explicit operator bool() const { return base_ != nullptr; }

 private:
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// A memory file of that size. It can be neither shrunk nor grown, so that a process that maps it cannot be made to
// fault.
expected<unique_fd> make_shared_memory(const char* name, int64_t bytes);
// Makes the content immutable for all processes. There must be no writable mapping left.
expected<void> seal_content(int fd);
// From here on nobody can write to it but through the writable mappings that exist.
expected<void> seal_for_others(int fd);
// A sealed memory file with that content.
expected<unique_fd> make_sealed_file(const char* name, std::string_view content);
// The size, after a check that size and content are sealed: errc::refused otherwise.
expected<int64_t> sealed_size(int fd);

enum class paging { on_demand, at_once };  // when the pages of a mapping are made present
expected<mapping> map_shared(int fd, int64_t bytes, memory_access access, paging when = paging::on_demand);
// Private memory, populated at the first access; with huge pages if it is large.
expected<mapping> map_private(int64_t bytes);

// The place of each tensor of a list in a draw's file: in separate pages, with its end as close to the last page's end
// as an alignment of 64 bytes allows. Both processes compute it from the types alone.
struct tensor_place {
  int64_t file_offset = 0;  // of its first page
  int64_t pages_bytes = 0;
  int64_t data_offset = 0;  // of its first byte, from file_offset
  int64_t bytes = 0;        // its storage
};
struct tensor_layout {
  std::vector<tensor_place> places;
  int64_t file_bytes = 0;
};
tensor_layout layout_of(std::span<const tensor_type> types);

// A draw's file mapped for reading, each tensor between inaccessible pages.
class mapped_tensors {
 public:
  mapped_tensors() = default;
  // `shift_pages` moves all addresses, so that they differ from call to call.
  static expected<mapped_tensors> map(int fd, const tensor_layout& layout, int64_t shift_pages = 0);
  std::byte* data(std::size_t index) const { return data_[index]; }
  std::size_t size() const { return data_.size(); }
  bool empty() const { return !whole_; }

  // The tensor whose pages, or the guard page after them, contain that address; -1 for none. Async-signal-safe.
  int find(const void* address) const noexcept;

 private:
  mapping whole_;
  std::vector<std::byte*> data_, first_page_, guard_end_;
};

}  // namespace cudal1
