// Content addresses (SHA-256) and fast fingerprints (XXH3, 128 bits) of memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "config/base/error.hpp"

namespace cudal1 {

// 64 lower-case hexadecimal digits. Ids are compared and stored in full; people are shown the first 12 digits.
std::string sha256_hex(std::string_view bytes);
// The SHA-256 of a whole file, whatever its offset.
expected<std::string> sha256_of_file(int fd);

struct fingerprint {
  uint64_t low = 0, high = 0;
  bool operator==(const fingerprint&) const = default;
};

// Not collision-resistant against chosen bytes: `seed` must be unknown to whoever can choose them.
fingerprint fingerprint_of(const void* data, std::size_t bytes, uint64_t seed);

}  // namespace cudal1
