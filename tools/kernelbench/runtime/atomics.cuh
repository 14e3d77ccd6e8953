// The atomics of 64-bit integers that the kernels' dialect has and CUDA lacks, or lacks in some versions. Templates, so
// that CUDA's own are preferred.
template <class T, class... Types>
using only_for = std::enable_if_t<(std::is_same_v<T, Types> || ...), T>;
#define PROGRAM_ATOMIC(NAME, SUFFIX, CALLED, VALUE, ...)                                               \
  template <class T>                                                                                   \
  __device__ __forceinline__ only_for<T, __VA_ARGS__> NAME##SUFFIX(T* p, std::common_type_t<T> v) {    \
    return (T)CALLED##SUFFIX((unsigned long long*)p, VALUE);                                           \
  }
#define PROGRAM_ATOMICS(SUFFIX)                                                                        \
  PROGRAM_ATOMIC(atomicAdd, SUFFIX, atomicAdd, (unsigned long long)v, long long, unsigned long)        \
  PROGRAM_ATOMIC(atomicSub, SUFFIX, atomicAdd, 0ull - (unsigned long long)v, long long, unsigned long, \
                 unsigned long long)                                                                   \
  PROGRAM_ATOMIC(atomicExch, SUFFIX, atomicExch, (unsigned long long)v, long long, unsigned long)      \
  PROGRAM_ATOMIC(atomicAnd, SUFFIX, atomicAnd, (unsigned long long)v, long long, unsigned long)        \
  PROGRAM_ATOMIC(atomicOr, SUFFIX, atomicOr, (unsigned long long)v, long long, unsigned long)          \
  PROGRAM_ATOMIC(atomicXor, SUFFIX, atomicXor, (unsigned long long)v, long long, unsigned long)        \
  PROGRAM_ATOMIC(atomicMin, SUFFIX, atomicMin, (unsigned long long)v, unsigned long)                   \
  PROGRAM_ATOMIC(atomicMax, SUFFIX, atomicMax, (unsigned long long)v, unsigned long)                   \
  template <class T>                                                                                   \
  __device__ __forceinline__ only_for<T, long long, unsigned long> atomicCAS##SUFFIX(                  \
      T* p, std::common_type_t<T> expected, std::common_type_t<T> desired) {                           \
    return (T)atomicCAS##SUFFIX((unsigned long long*)p, (unsigned long long)expected,                  \
                                (unsigned long long)desired);                                          \
  }
PROGRAM_ATOMICS()
PROGRAM_ATOMICS(_block)
PROGRAM_ATOMICS(_system)
