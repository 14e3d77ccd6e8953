// Content addresses (SHA-256) and fast fingerprints (XXH3, 128 bits) of memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

// 64 lower-case hexadecimal digits. Ids are compared and stored whole; people are shown the first 12.
std::string sha256_hex(std::string_view bytes);
// The same of a file, from its first byte on.
expected<std::string> sha256_of_file(int fd);

struct fingerprint {
  uint64_t low = 0, high = 0;
  bool operator==(const fingerprint&) const = default;
};

// Not a defence against somebody who chooses the bytes to collide: the one who hashes keeps `seed` secret.
fingerprint fingerprint_of(const void* data, std::size_t bytes, uint64_t seed);

}  // namespace cudal1
