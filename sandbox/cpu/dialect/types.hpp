// The dialect: CUDA C++ without includes and namespaces. What vectorises best on this device, in short: one element a
// thread, index `blockIdx.x * blockDim.x + threadIdx.x`, a guard whose bound is a parameter (`if (i < n)`), the
// contiguous dimension on x and rows on blockIdx.y; a thread a row, with 16 accumulators, for reductions; float math
// functions rather than double ones. Barriers, shuffles, votes and __shared__ are exact, and slow (fibers).

#define __global__
#define __device__
#define __host__
#define __constant__ const
#define __grid_constant__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define CUDAL1_INLINE static inline __attribute__((always_inline))

namespace {

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef decltype(sizeof(0)) size_t;
typedef decltype((char*)0 - (char*)0) ptrdiff_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define CUDAL1_VECTOR(T, NAME, A2, A4)                       \
  struct NAME##1 {                                           \
    T x;                                                     \
  };                                                         \
  struct __attribute__((aligned(A2))) NAME##2 {              \
    T x, y;                                                  \
  };                                                         \
  struct NAME##3 {                                           \
    T x, y, z;                                               \
  };                                                         \
  struct __attribute__((aligned(A4))) NAME##4 {              \
    T x, y, z, w;                                            \
  };                                                         \
  CUDAL1_INLINE NAME##1 make_##NAME##1(T x) {                \
    return {x};                                              \
  }                                                          \
  CUDAL1_INLINE NAME##2 make_##NAME##2(T x, T y) {           \
    return {x, y};                                           \
  }                                                          \
  CUDAL1_INLINE NAME##3 make_##NAME##3(T x, T y, T z) {      \
    return {x, y, z};                                        \
  }                                                          \
  CUDAL1_INLINE NAME##4 make_##NAME##4(T x, T y, T z, T w) { \
    return {x, y, z, w};                                     \
  }

CUDAL1_VECTOR(signed char, char, 2, 4)
CUDAL1_VECTOR(unsigned char, uchar, 2, 4)
CUDAL1_VECTOR(short, short, 4, 8)
CUDAL1_VECTOR(unsigned short, ushort, 4, 8)
CUDAL1_VECTOR(int, int, 8, 16)
CUDAL1_VECTOR(unsigned, uint, 8, 16)
CUDAL1_VECTOR(long, long, 16, 16)
CUDAL1_VECTOR(unsigned long, ulong, 16, 16)
CUDAL1_VECTOR(long long, longlong, 16, 16)
CUDAL1_VECTOR(unsigned long long, ulonglong, 16, 16)
CUDAL1_VECTOR(float, float, 8, 16)
CUDAL1_VECTOR(double, double, 16, 16)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned vx = 1, unsigned vy = 1, unsigned vz = 1) : x(vx), y(vy), z(vz) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

constexpr int warpSize = 32;

template <class To, class From>
CUDAL1_INLINE To cudal1_bits(From v) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, v);
}

CUDAL1_INLINE int __float_as_int(float v) {
  return cudal1_bits<int>(v);
}
CUDAL1_INLINE unsigned __float_as_uint(float v) {
  return cudal1_bits<unsigned>(v);
}
CUDAL1_INLINE float __int_as_float(int v) {
  return cudal1_bits<float>(v);
}
CUDAL1_INLINE float __uint_as_float(unsigned v) {
  return cudal1_bits<float>(v);
}
CUDAL1_INLINE long long __double_as_longlong(double v) {
  return cudal1_bits<long long>(v);
}
CUDAL1_INLINE double __longlong_as_double(long long v) {
  return cudal1_bits<double>(v);
}

// Half types as their bits. To them: rounded to nearest even; a pair has the first one in its low bits. Without
// branches, so that loops over them vectorise.
CUDAL1_INLINE float float_of_bfloat16(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}
CUDAL1_INLINE unsigned short bfloat16_of_float(float v) {
  const unsigned bits = __float_as_uint(v);
  return (unsigned short)(v != v ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
// The exponent is moved by a product with 2^112, which is exact for subnormal numbers as well.
CUDAL1_INLINE float float_of_half(unsigned short bits) {
  const unsigned rest = (unsigned)(bits & 0x7fff) << 13, sign = (unsigned)(bits & 0x8000) << 16;
  const unsigned moved = __float_as_uint(__uint_as_float(rest) * 0x1p112f);
  return __uint_as_float(sign | (rest >= 0x0f800000u ? rest | 0x7f800000u : moved));
}
// Below 2^-14 a sum with 0.5 rounds: its last bit is the smallest subnormal number.
CUDAL1_INLINE unsigned short half_of_float(float v) {
  const unsigned bits = __float_as_uint(v), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  const unsigned normal = (rest + 0xfffu + (rest >> 13 & 1u) - 0x38000000u) >> 13;
  const unsigned small = __float_as_uint(__uint_as_float(rest) + 0.5f) - 0x3f000000u;
  const unsigned large = rest > 0x7f800000u ? 0x7fffu : 0x7c00u;
  return (unsigned short)(sign | (rest < 0x38800000u ? small : rest < 0x47800000u ? normal : large));
}
CUDAL1_INLINE unsigned half_pair_of_floats(float low, float high) {
  return half_of_float(low) | (unsigned)half_of_float(high) << 16;
}
CUDAL1_INLINE unsigned bfloat16_pair_of_floats(float low, float high) {
  return bfloat16_of_float(low) | (unsigned)bfloat16_of_float(high) << 16;
}

// The bits of a TF32 number: rounded to nearest, ties away from zero. Of a NaN, GPUs only cut bits off.
CUDAL1_INLINE unsigned tf32_of_float(float v) {
  const unsigned bits = __float_as_uint(v);
  return ((bits & 0x7fffffffu) > 0x7f800000u ? bits : bits + 0x1000u) & 0xffffe000u;
}

// The same with ties to even, as most convolutions of cuDNN round what they are given on compute capability 9.0.
CUDAL1_INLINE unsigned tf32_even_of_float(float v) {
  const unsigned bits = __float_as_uint(v);
  return ((bits & 0x7fffffffu) > 0x7f800000u ? bits : bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
}

// Cache hints mean nothing here.
#define CUDAL1_LOAD(NAME)            \
  template <class T>                 \
  CUDAL1_INLINE T NAME(const T* p) { \
    return *p;                       \
  }
#define CUDAL1_STORE(NAME)                 \
  template <class T>                       \
  CUDAL1_INLINE void NAME(T* p, T value) { \
    *p = value;                            \
  }
CUDAL1_LOAD(__ldg)
CUDAL1_LOAD(__ldca)
CUDAL1_LOAD(__ldcg)
CUDAL1_LOAD(__ldcs)
CUDAL1_LOAD(__ldlu)
CUDAL1_LOAD(__ldcv)
CUDAL1_STORE(__stwb)
CUDAL1_STORE(__stcg)
CUDAL1_STORE(__stcs)
CUDAL1_STORE(__stwt)
