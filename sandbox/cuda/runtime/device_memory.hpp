// Device memory that processes share: physical memory behind a file descriptor (cuMemCreate), mapped by each process
// for reading or for writing. A write by device code to a read-only mapping is an illegal access.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/base/memory_access.hpp"
#include "config/base/unique_fd.hpp"
#include "sandbox/cuda/runtime/api.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

// A range of mapped device memory, owned: it is unmapped and its addresses are freed with this object.
class device_mapping {
 public:
  device_mapping() = default;
  device_mapping(device_mapping&& other) noexcept { *this = std::move(other); }
  device_mapping& operator=(device_mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  device_mapping(const device_mapping&) = delete;
  device_mapping& operator=(const device_mapping&) = delete;
  ~device_mapping();

  std::byte* data() const { return std::bit_cast<std::byte*>(base_); }
  int64_t size() const { return static_cast<int64_t>(bytes_); }
  explicit operator bool() const { return base_ != 0; }

 private:
  friend expected<device_mapping> map_device_memory(int fd, int64_t bytes, int device, memory_access access);
  CUdeviceptr base_ = 0;
  std::size_t bytes_ = 0;
};

// Memory behind several descriptors, at addresses that follow each other: the first parts are mapped for writing, as
// many as are wanted. What is not mapped keeps its content; a write there is an illegal access.
class mapping_in_parts {
 public:
  // The descriptors stay open for as long as this object lives. Nothing is mapped yet.
  static expected<mapping_in_parts> reserve(std::vector<unique_fd> files, std::vector<int64_t> bytes, int device);
  mapping_in_parts() = default;
  mapping_in_parts(mapping_in_parts&& other) noexcept { *this = std::move(other); }
  mapping_in_parts& operator=(mapping_in_parts&& other) noexcept;
  mapping_in_parts(const mapping_in_parts&) = delete;
  mapping_in_parts& operator=(const mapping_in_parts&) = delete;
  ~mapping_in_parts();

  std::byte* data() const { return std::bit_cast<std::byte*>(base_); }
  const std::vector<int64_t>& bytes() const { return bytes_; }  // of each part
  // To map is possible while a stream is captured; before parts are unmapped the device must be done with them.
  expected<void> map_first(std::size_t parts);

 private:
  CUdeviceptr at(std::size_t part) const;
  CUdeviceptr base_ = 0;
  int device_ = 0;
  std::vector<unique_fd> files_;
  std::vector<int64_t> bytes_;
  std::size_t mapped_ = 0;
};

// `bytes` rounded up to the device's mapping granularity (2 MiB).
expected<int64_t> rounded_device_bytes(int64_t bytes, int device);
// Physical memory of (rounded) that size. It lives as long as a descriptor or a mapping of it does, in any process.
expected<unique_fd> make_device_memory(int64_t bytes, int device);
// Maps all of the memory behind the descriptor, at addresses with nothing mapped next to them.
expected<device_mapping> map_device_memory(int fd, int64_t bytes, int device, memory_access access);

// Where the tensors of a list lie in one such memory: each aligned to 512 bytes and followed by a gap of at least 512,
// except that the last one ends at the end of the mapping, or up to 63 bytes before it for alignment, so that reading
// past it is an illegal access. Both processes compute it from the types alone. `offsets` in bytes.
struct device_layout {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;  // of all, a multiple of 2 MiB
};
device_layout device_layout_of(std::span<const tensor_type> types);

// Device files of the driver, which CUDA opens for writing also after start-up (one for each memory it exports).
std::vector<std::string> gpu_device_files();

}  // namespace cudal1
