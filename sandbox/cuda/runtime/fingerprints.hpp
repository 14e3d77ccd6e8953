// Fingerprints of tensors in a GPU's memory, which the runner takes of a call's outputs and the referee of those that
// it looks at itself: the same kernel on both sides. It is keyed, and the key is the referee's: a runner is told it
// with the call, and a program on the device cannot tell which bytes would give a wanted fingerprint without both the
// key and the right output.
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
  int dimensions = 0;                                                    // 0: without gaps, in order
  long long sizes[most_dimensions] = {}, strides[most_dimensions] = {};  // in elements
};

inline constexpr unsigned hash_threads = 256;

// `hash_tensor(hashed_tensor, word first_secret, word second_secret, word* sums)` adds to two sums, which begin at 0.
// CUDA C++ without includes.
std::string_view hash_kernel_text();

// One launch, of the output of that index, of hash_blocks() blocks of hash_threads. The fingerprint of all outputs is
// the sum of their bases and of what the kernel added up.
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
