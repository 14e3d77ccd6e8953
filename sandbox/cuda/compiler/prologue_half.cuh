// Half types as their bits. To them: rounded to nearest even; a pair has the first one in its low bits.
static __device__ __forceinline__ float float_of_half(unsigned short bits) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}
static __device__ __forceinline__ float float_of_bfloat16(unsigned short bits) {
  return __uint_as_float((unsigned)bits << 16);
}
static __device__ __forceinline__ unsigned short half_of_float(float v) {
  unsigned short bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
static __device__ __forceinline__ unsigned short bfloat16_of_float(float v) {
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(v));
  return bits;
}
static __device__ __forceinline__ unsigned half_pair_of_floats(float low, float high) {
  unsigned bits;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
static __device__ __forceinline__ unsigned bfloat16_pair_of_floats(float low, float high) {
  unsigned bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
  return bits;
}
#else
static __device__ __forceinline__ unsigned short bfloat16_of_float(float v) {
  const unsigned bits = __float_as_uint(v);
  return (unsigned short)(v != v ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
static __device__ __forceinline__ unsigned half_pair_of_floats(float low, float high) {
  return half_of_float(low) | (unsigned)half_of_float(high) << 16;
}
static __device__ __forceinline__ unsigned bfloat16_pair_of_floats(float low, float high) {
  return bfloat16_of_float(low) | (unsigned)bfloat16_of_float(high) << 16;
}
#endif
