// Fingerprints of tensors in a GPU's memory. The runner computes them for a call's outputs, and the referee for the
// outputs that it compares, with the same kernel. The hash is keyed, and the referee sends the key with the call: a
// program on the device cannot construct bytes with a given fingerprint without both the key and the right output.
#pragma once

#include <cstdint>
#include <string_view>

#include "config/base/hash.hpp"
#include "sandbox/program/types.hpp"

namespace cudal1 {

// The kernel's first argument, by value.
struct hashed_tensor {
  static constexpr int most_dimensions = 16;
  const void* data = nullptr;
  long long bytes = 0;  // of its elements without gaps
  int element_bytes = 0;
  int dimensions = 0;                                                    // 0: contiguous
  long long sizes[most_dimensions] = {}, strides[most_dimensions] = {};  // in elements
};

inline constexpr unsigned hash_threads = 256;

// `hash_tensor(hashed_tensor, word first_secret, word second_secret, word* sums)` adds to two sums, which begin at 0.
// CUDA C++ without includes.
std::string_view hash_kernel_text();

// One launch for the output with that index, of `blocks` blocks of hash_threads. The fingerprint of all outputs is the
// sum of their bases and of the kernel's sums.
struct hash_launch {
  hashed_tensor tensor;
  uint64_t first_secret = 0, second_secret = 0;
  fingerprint base;
  unsigned blocks = 0;  // 0: no element, nothing to launch
};
hash_launch hash_of_output(const tensor_type& type, const void* data, uint64_t key, std::size_t index);

inline fingerprint& operator+=(fingerprint& a, const fingerprint& b) {
  a.low += b.low;
  a.high += b.high;
  return a;
}

}  // namespace cudal1
