// The runner's own kernels: poison and its check, the cache flush, kernels that overwrite the memory on the
// multiprocessors and of threads, and one that waits for the host. Fingerprints
// are in fingerprints.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cudal1 {

// Ranges of words of the arena, an argument of two of the kernels, by value.
struct word_ranges {
  static constexpr std::size_t most = 60;
  uint64_t count = 0, first[most] = {}, words[most] = {};
};

// What stands before each of the texts below.
inline constexpr std::string_view runner_functions = R"cuda(
typedef unsigned long long word;

__device__ inline word mixed(word x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Until all blocks of the launch have begun, so that each multiprocessor has its share of them; a millisecond at most.
__device__ inline void wait_for_all(unsigned* begun) {
  __syncthreads();
  if (threadIdx.x == 0) {
    word start, now;
    atomicAdd(begun, 1u);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (*(volatile unsigned*)begun < gridDim.x && now - start < 1000000ull);
  }
  __syncthreads();
}

)cuda";

inline constexpr std::string_view runner_kernels = R"cuda(
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

// Reads only: dirty lines would be written back at the timed call's expense. What it reads should be `content`; `found`
// counts the threads that met something else.
extern "C" __global__ void flush(const uint4* buffer, word count, unsigned content, word* found) {
  const word stride = (word)gridDim.x * blockDim.x;
  unsigned other = 0;
  for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 v = buffer[i];
    other |= (v.x ^ content) | (v.y ^ content) | (v.z ^ content) | (v.w ^ content);
  }
  if (other != 0) atomicAdd(found, 1ull);
}

// One block on each multiprocessor, with all of its shared memory.
extern "C" __global__ void wipe_shared(unsigned words, word seed, unsigned* begun) {
  extern __shared__ word shared[];
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) ((volatile word*)shared)[i] = mixed(seed + i);
  wait_for_all(begun);
}

// One read in each 4 KiB, so that address translations are as warm for the first call as for later ones.
extern "C" __global__ void touch(const char* memory, word bytes, unsigned* sink) {
  const word stride = (word)gridDim.x * blockDim.x;
  unsigned sum = 0;
  for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i * 4096 < bytes; i += stride) sum += memory[i * 4096];
  if (sum == 0x12345678u) *sink = sum;
}

// All of it.
extern "C" __global__ void read_all(const uint4* memory, word count, unsigned* sink) {
  const word stride = (word)gridDim.x * blockDim.x;
  unsigned all = 0;
  for (word i = (word)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 v = memory[i];
    all ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (all == 0x12345678u) *sink = all;
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

// To be launched with as many threads as run at a time. Each size is a library of its own, loaded when it is needed:
// the driver reserves a kernel's frame for all of these threads.
inline std::string wipe_local_kernel(int64_t frame_bytes) {
  return std::string(runner_functions) + "constexpr int words = " + std::to_string(frame_bytes / 8) + R"cuda(;
extern "C" __global__ void __launch_bounds__(1024, 1) wipe_local(word seed, unsigned* begun) {
  volatile word frame[words];
#pragma unroll 1
  for (int i = 0; i < words; ++i) frame[i] = mixed(seed + i);
  wait_for_all(begun);
}
)cuda";
}

}  // namespace cudal1
