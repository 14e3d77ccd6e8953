// Elements of every dtype as doubles, and back; and strided tensors as flat ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sandbox/program/types.hpp"

namespace cudal1 {

// `count` elements from flat index `first`. int64 loses what a double cannot hold.
void load_elements(dtype type, const std::byte* source, int64_t first, int64_t count, double* target);
// Rounds to nearest; integers are truncated and kept in range, bool is "not zero", float16 is kept finite.
void store_elements(dtype type, std::byte* target, int64_t first, int64_t count, const double* source);

// The elements of a strided tensor in row-major order, and back. `strided` has storage_bytes() bytes.
void gather(const tensor_type& type, const std::byte* strided, std::byte* flat);
void scatter(const tensor_type& type, const std::byte* flat, std::byte* strided);

}  // namespace cudal1
