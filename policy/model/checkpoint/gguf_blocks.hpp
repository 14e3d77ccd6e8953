// The types of elements in GGUF files, and how blocks of them become float32. Sources of the layouts: ggml's
// specification of GGUF and its documented block structures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "config/base/error.hpp"

namespace cudal1 {

struct gguf_type {
  const char* name;
  uint32_t number;    // in files
  int64_t elements;   // of a block
  std::size_t bytes;  // of a block
  // Writes `elements` floats.
  void (*read)(const std::byte* block, float* out);
};

// errc::unsupported names the type, and those that can be read.
expected<const gguf_type*> gguf_type_of(uint32_t number);

// Whole blocks; `out` has as many elements as they hold.
void read_blocks(const gguf_type& type, std::span<const std::byte> blocks, std::span<float> out);

}  // namespace cudal1
