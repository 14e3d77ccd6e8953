// Numbers as answers write them, as patterns of bytes: those that a program may have.
#pragma once

#include <utility>
#include <vector>

#include "policy/model/constraint/byte_pattern.hpp"

namespace cudal1 {

inline constexpr int most_written_dimensions = 5;

// Up to nine digits: within 32 bits.
byte_pattern positive_number();
byte_pattern integer_number();
// Fits a float.
byte_pattern real_number();
// Up to 65535, CUDA's limit.
byte_pattern short_extent();
// Of a launch, up to 48 KiB.
byte_pattern shared_bytes();
// The same, nearly up to the 227 KiB that a launch may ask for: stages of tiles.
byte_pattern shared_bytes_of_tiles();
// Threads of a block in x and y: at most 1024 in all.
std::vector<std::pair<int, int>> block_shapes();

}  // namespace cudal1
