// The atomics of 64-bit integers that the dialect has and CUDA has not: for programs that use any, since reading them takes
// a tenth of a small compilation.

// T is as wide as unsigned long long, which CUDA's atomics take; their results do not depend on the sign.
#define CUDAL1_ATOMIC_BITS(T, SUFFIX)                                                                      \
  __device__ __forceinline__ T atomicAdd##SUFFIX(T* p, T v) {                                              \
    return (T)atomicAdd##SUFFIX((unsigned long long*)p, (unsigned long long)v);                            \
  }                                                                                                        \
  __device__ __forceinline__ T atomicSub##SUFFIX(T* p, T v) {                                              \
    return (T)atomicAdd##SUFFIX((unsigned long long*)p, 0ull - (unsigned long long)v);                     \
  }                                                                                                        \
  __device__ __forceinline__ T atomicExch##SUFFIX(T* p, T v) {                                             \
    return (T)atomicExch##SUFFIX((unsigned long long*)p, (unsigned long long)v);                           \
  }                                                                                                        \
  __device__ __forceinline__ T atomicCAS##SUFFIX(T* p, T expected, T desired) {                            \
    return (T)atomicCAS##SUFFIX((unsigned long long*)p, (unsigned long long)expected, (unsigned long long)desired); \
  }                                                                                                        \
  __device__ __forceinline__ T atomicAnd##SUFFIX(T* p, T v) {                                              \
    return (T)atomicAnd##SUFFIX((unsigned long long*)p, (unsigned long long)v);                            \
  }                                                                                                        \
  __device__ __forceinline__ T atomicOr##SUFFIX(T* p, T v) {                                               \
    return (T)atomicOr##SUFFIX((unsigned long long*)p, (unsigned long long)v);                             \
  }                                                                                                        \
  __device__ __forceinline__ T atomicXor##SUFFIX(T* p, T v) {                                              \
    return (T)atomicXor##SUFFIX((unsigned long long*)p, (unsigned long long)v);                            \
  }
#define CUDAL1_ATOMICS(SUFFIX)                                                                             \
  CUDAL1_ATOMIC_BITS(long long, SUFFIX)                                                                    \
  CUDAL1_ATOMIC_BITS(unsigned long, SUFFIX)                                                                \
  __device__ __forceinline__ unsigned long long atomicSub##SUFFIX(unsigned long long* p, unsigned long long v) { \
    return atomicAdd##SUFFIX(p, 0ull - v);                                                                 \
  }                                                                                                        \
  __device__ __forceinline__ unsigned long atomicMin##SUFFIX(unsigned long* p, unsigned long v) {          \
    return (unsigned long)atomicMin##SUFFIX((unsigned long long*)p, (unsigned long long)v);                \
  }                                                                                                        \
  __device__ __forceinline__ unsigned long atomicMax##SUFFIX(unsigned long* p, unsigned long v) {          \
    return (unsigned long)atomicMax##SUFFIX((unsigned long long*)p, (unsigned long long)v);                \
  }
CUDAL1_ATOMICS()
CUDAL1_ATOMICS(_block)
CUDAL1_ATOMICS(_system)
#undef CUDAL1_ATOMICS
#undef CUDAL1_ATOMIC_BITS
