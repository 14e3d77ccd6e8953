// Runs the text of a CUDA kernel on the host, one block after the other: its threads are fibers, which switch at
// barriers and shuffles only. Has what decoder_primitives.cuh has, and those of CUDA's built-in functions that the
// kernels use.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include <boost/context/detail/fcontext.hpp>

namespace cudal1::kernels_on_host {

namespace context = boost::context::detail;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = unsigned long long;

struct int2 {
  int x, y;
};
struct place_in_grid {
  unsigned x = 0, y = 0, z = 0;
};

// Threads that wait for each other.
struct meeting {
  int members = 0, arrived = 0;
  uint64_t times = 0;
};

class block_of_fibers {
 public:
  static block_of_fibers*& current() {
    static block_of_fibers* running = nullptr;
    return running;
  }

  block_of_fibers(int threads, std::function<void()> kernel) : kernel_(std::move(kernel)), fibers_(threads) {
    all_.members = threads;
    warps_.resize(static_cast<std::size_t>((threads + 31) / 32));
    for (std::size_t w = 0; w < warps_.size(); ++w)
      warps_[w].members = std::min(32, threads - 32 * static_cast<int>(w));
    values_.resize(static_cast<std::size_t>(threads));
  }

  void run() {
    current() = this;
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      auto& f = fibers_[i];
      f.stack = std::make_unique_for_overwrite<char[]>(stack_bytes);
      f.context = context::make_fcontext(f.stack.get() + stack_bytes, stack_bytes, &block_of_fibers::begin);
    }
    for (bool any = true; any;) {
      any = false;
      const uint64_t before = progress_;
      for (at_ = 0; at_ < fibers_.size(); ++at_) {
        if (fibers_[at_].is_done) continue;
        any = true;
        fibers_[at_].context = context::jump_fcontext(fibers_[at_].context, nullptr).fctx;
      }
      if (any && progress_ == before) throw std::runtime_error("a barrier that not all threads reach");
    }
    current() = nullptr;
  }

  int thread() const { return static_cast<int>(at_); }
  int threads() const { return static_cast<int>(fibers_.size()); }
  void meet_all() { meet(all_); }
  void meet_warp() { meet(warps_[at_ / 32]); }
  // The value that a lane of this thread's warp has given.
  template <class T>
  T exchange(T own, int lane) {
    static_assert(sizeof(T) <= 8);
    std::memcpy(&values_[at_], &own, sizeof own);
    meet_warp();
    T out;
    std::memcpy(&out, &values_[at_ / 32 * 32 + static_cast<std::size_t>(lane)], sizeof out);
    meet_warp();
    return out;
  }

 private:
  static constexpr std::size_t stack_bytes = 64 << 10;
  struct fiber {
    context::fcontext_t context = nullptr;
    std::unique_ptr<char[]> stack;
    bool is_done = false;
  };

  static void begin(context::transfer_t from) {
    auto& self = *current();
    self.scheduler_ = from.fctx;
    self.kernel_();
    self.fibers_[self.at_].is_done = true;
    ++self.progress_;
    context::jump_fcontext(self.scheduler_, nullptr);
  }
  void meet(meeting& m) {
    const uint64_t times = m.times;
    ++progress_;
    if (++m.arrived == m.members) {
      m.arrived = 0;
      ++m.times;
      return;
    }
    while (m.times == times)
      scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx;
  }

  std::function<void()> kernel_;
  std::vector<fiber> fibers_;
  context::fcontext_t scheduler_ = nullptr;
  std::size_t at_ = 0;
  meeting all_;
  std::vector<meeting> warps_;
  std::vector<uint64_t> values_;
  uint64_t progress_ = 0;
};

struct thread_index {
  struct of_dimension {
    operator unsigned() const { return static_cast<unsigned>(block_of_fibers::current()->thread()); }
  } x;
};
inline thread_index threadIdx;
inline place_in_grid blockIdx, gridDim, blockDim;
alignas(16) inline char dynamic_shared[256 << 10];

// kernel(): called as each thread of each block.
template <class Kernel>
void run_grid(place_in_grid grid, int threads, const Kernel& kernel) {
  gridDim = grid;
  blockDim = {static_cast<unsigned>(threads), 1, 1};
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
        block_of_fibers(threads, kernel).run();
}

inline void __syncthreads() {
  block_of_fibers::current()->meet_all();
}
inline void __syncwarp() {
  block_of_fibers::current()->meet_warp();
}
inline void __threadfence() {}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return block_of_fibers::current()->exchange(value, (block_of_fibers::current()->thread() % 32) ^ mask);
}
template <class T>
T __shfl_up_sync(unsigned, T value, int by) {
  const int lane = block_of_fibers::current()->thread() % 32;
  return block_of_fibers::current()->exchange(value, lane >= by ? lane - by : lane);
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
inline u32 atomicInc(u32* at, u32 most) {
  const u32 old = *at;
  *at = old >= most ? 0 : old + 1;
  return old;
}
template <class To, class From>
To bits_as(From from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline u32 __float_as_uint(float f) {
  return bits_as<u32>(f);
}
inline float __uint_as_float(u32 u) {
  return bits_as<float>(u);
}
inline float __int_as_float(int i) {
  return bits_as<float>(i);
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
template <class A, class B>
auto min(A a, B b) -> decltype(a + b) {
  return a < b ? a : b;
}
template <class A, class B>
auto max(A a, B b) -> decltype(a + b) {
  return a > b ? a : b;
}

// Of decoder_primitives.cuh.
inline float float_of_half(u16 bits) {
  return static_cast<float>(bits_as<_Float16>(bits));
}
inline u16 half_of(float f) {
  return bits_as<u16>(static_cast<_Float16>(f));
}
inline u16 bfloat16_of(float f) {
  const u32 bits = bits_as<u32>(f);
  return static_cast<u16>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline void copy_16(void* to, const void* from) {
  std::memcpy(to, from, 16);
}
inline void end_copy_group() {}
inline void let_next_kernel_begin() {}
inline void wait_for_previous_kernel() {}
template <int GROUPS>
void wait_for_copies() {}

}  // namespace cudal1::kernels_on_host

#define KERNEL static
#define KERNEL_OF(THREADS) static void
#define DYNAMIC_SHARED(NAME) char* NAME = dynamic_shared
#define __shared__ static
#define __device__
#define __forceinline__ inline
#define __align__(BYTES) __attribute__((aligned(BYTES)))
