// Conversion between elements of every dtype and doubles, and between strided and flat tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "sandbox/program/types.hpp"

namespace cudal1 {

// `count` elements from flat index `first`. Large int64 are rounded.
void load_elements(dtype type, const std::byte* source, int64_t first, int64_t count, double* target);
// Rounds to nearest; integers are truncated and clamped, bool is `value != 0`, float16 is clamped to finite values.
void store_elements(dtype type, std::byte* target, int64_t first, int64_t count, const double* source);

// The least number that rounds to infinity in the type: half a step beyond its largest. Infinity, where no double does.
double least_infinite(dtype type);

// How the elements of a tensor move to neighbouring floats, up or down.
struct element_move {
  uint64_t seed = 0;
  int64_t together = 1;  // so many consecutive ones move the same way
};
// `first`: the place of values[0] in its tensor.
void move_elements(dtype type, const element_move& how, int64_t first, std::span<double> values);

// The elements of a strided tensor in row-major order, and back. `strided` has storage_bytes() bytes.
void gather(const tensor_type& type, const std::byte* strided, std::byte* flat);
void scatter(const tensor_type& type, const std::byte* flat, std::byte* strided);

}  // namespace cudal1
