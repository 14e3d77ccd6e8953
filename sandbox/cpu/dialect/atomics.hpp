// Atomics on global and shared memory, and fences. Several cores run blocks at once, so they are real ones.

template <class T>
CUDAL1_INLINE T cudal1_cas(T* address, T expected, T desired) {
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

// old = *address; *address = next(old); returns old.
template <class Word, class T, class Next>
CUDAL1_INLINE T cudal1_update(T* address, Next next) {
  static_assert(sizeof(Word) == sizeof(T));
  Word* const word = (Word*)address;
  Word old = __atomic_load_n(word, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(word, &old, cudal1_bits<Word>(next(cudal1_bits<T>(old))), false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return cudal1_bits<T>(old);
}

#define CUDAL1_ATOMIC_INTEGER(T, SUFFIX)                                  \
  CUDAL1_INLINE T atomicAdd##SUFFIX(T* p, T v) {                          \
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                    \
  }                                                                       \
  CUDAL1_INLINE T atomicSub##SUFFIX(T* p, T v) {                          \
    return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED);                    \
  }                                                                       \
  CUDAL1_INLINE T atomicAnd##SUFFIX(T* p, T v) {                          \
    return __atomic_fetch_and(p, v, __ATOMIC_RELAXED);                    \
  }                                                                       \
  CUDAL1_INLINE T atomicOr##SUFFIX(T* p, T v) {                           \
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);                     \
  }                                                                       \
  CUDAL1_INLINE T atomicXor##SUFFIX(T* p, T v) {                          \
    return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED);                    \
  }                                                                       \
  CUDAL1_INLINE T atomicExch##SUFFIX(T* p, T v) {                         \
    return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);                   \
  }                                                                       \
  CUDAL1_INLINE T atomicCAS##SUFFIX(T* p, T expected, T desired) {        \
    return cudal1_cas(p, expected, desired);                              \
  }                                                                       \
  CUDAL1_INLINE T atomicMin##SUFFIX(T* p, T v) {                          \
    return cudal1_update<T>(p, [v](T old) { return old < v ? old : v; }); \
  }                                                                       \
  CUDAL1_INLINE T atomicMax##SUFFIX(T* p, T v) {                          \
    return cudal1_update<T>(p, [v](T old) { return old > v ? old : v; }); \
  }
#define CUDAL1_ATOMICS(SUFFIX)                                                                                      \
  CUDAL1_ATOMIC_INTEGER(int, SUFFIX)                                                                                \
  CUDAL1_ATOMIC_INTEGER(unsigned, SUFFIX)                                                                           \
  CUDAL1_ATOMIC_INTEGER(unsigned long, SUFFIX)                                                                      \
  CUDAL1_ATOMIC_INTEGER(long long, SUFFIX)                                                                          \
  CUDAL1_ATOMIC_INTEGER(unsigned long long, SUFFIX)                                                                 \
  CUDAL1_INLINE float atomicAdd##SUFFIX(float* p, float v) {                                                        \
    return cudal1_update<unsigned>(p, [v](float old) { return old + v; });                                          \
  }                                                                                                                 \
  CUDAL1_INLINE double atomicAdd##SUFFIX(double* p, double v) {                                                     \
    return cudal1_update<unsigned long long>(p, [v](double old) { return old + v; });                               \
  }                                                                                                                 \
  CUDAL1_INLINE float atomicExch##SUFFIX(float* p, float v) {                                                       \
    return cudal1_bits<float>(__atomic_exchange_n((unsigned*)p, cudal1_bits<unsigned>(v), __ATOMIC_RELAXED));       \
  }                                                                                                                 \
  CUDAL1_INLINE unsigned atomicInc##SUFFIX(unsigned* p, unsigned limit) {                                           \
    return cudal1_update<unsigned>(p, [limit](unsigned old) { return old >= limit ? 0u : old + 1; });               \
  }                                                                                                                 \
  CUDAL1_INLINE unsigned atomicDec##SUFFIX(unsigned* p, unsigned limit) {                                           \
    return cudal1_update<unsigned>(p, [limit](unsigned old) { return old == 0 || old > limit ? limit : old - 1; }); \
  }
CUDAL1_ATOMICS()
CUDAL1_ATOMICS(_block)
CUDAL1_ATOMICS(_system)

CUDAL1_INLINE void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
CUDAL1_INLINE void __threadfence_block() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
CUDAL1_INLINE void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
CUDAL1_INLINE void __trap() {
  __builtin_trap();
}
