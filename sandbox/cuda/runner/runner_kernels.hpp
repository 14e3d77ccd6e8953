// The runner's own kernels: poison and its check, the cache flush, and a kernel that waits for the host. Fingerprints
// are in fingerprints.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cudal1 {

// Ranges of words of the arena, an argument of two of the kernels, by value.
struct word_ranges {
  static constexpr std::size_t most = 60;
  uint64_t count = 0, first[most] = {}, words[most] = {};
};

inline constexpr std::string_view runner_kernels = R"cuda(
typedef unsigned long long word;

__device__ inline word mixed(word x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// NaNs with a payload, large finite numbers, or noise, by the seed. Two seeds of one kind differ too, so that a result
// that depends on poison does not repeat.
__device__ inline word pattern(word index, word seed) {
  const word varied = mixed(seed) & 0x000000ff000000ffull;
  if (seed % 3 == 0) return 0x7fc0dead7fc0deadull ^ varied;
  if (seed % 3 == 1) return 0x7e9676997e967699ull ^ varied;
  return mixed(seed + index);
}

struct word_ranges {
  word count, first[60], words[60];
};

extern "C" __global__ void poison(word* arena, word_ranges ranges, word seed) {
  const word stride = (word)gridDim.x * blockDim.x;
  for (word r = 0; r < ranges.count; ++r) {
    const word first = ranges.first[r], words = ranges.words[r];
    for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride)
      arena[first + i] = pattern(first + i, seed);
  }
}

// found[0]: the number of words that differ; found[1]: the index of the first of them with inverted bits (0: none).
extern "C" __global__ void verify(const word* arena, word_ranges ranges, word seed, word* found) {
  const word stride = (word)gridDim.x * blockDim.x;
  for (word r = 0; r < ranges.count; ++r) {
    const word first = ranges.first[r], words = ranges.words[r];
    for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += stride) {
      if (arena[first + i] != pattern(first + i, seed)) {
        atomicAdd(&found[0], 1ull);
        atomicMax(&found[1], ~(first + i));
      }
    }
  }
}

// Reads only: dirty lines would be written back at the timed call's expense.
extern "C" __global__ void flush(const uint4* buffer, word count, unsigned* sink) {
  const word stride = (word)gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 v = buffer[i];
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) *sink = sum;
}

// One read in each 4 KiB, so that address translations are as warm for the first call as for later ones.
extern "C" __global__ void touch(const char* memory, word bytes, unsigned* sink) {
  const word stride = (word)gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i * 4096 < bytes; i += stride) sum += memory[i * 4096];
  if (sum == 0x12345678u) *sink = sum;
}

// One thread: waits until the host sets *go, or for `limit` nanoseconds, as enqueuing may itself wait for the stream.
extern "C" __global__ void wait_for_host(const volatile int* go, word limit) {
  word start, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (*go == 0 && now - start < limit);
}
)cuda";

}  // namespace cudal1
