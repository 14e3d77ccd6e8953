// Rows that a block has in registers: element i of `float v[N]` of thread t is that of column (i / 4 THREADS + t) 4 + i % 4.
// The same text for all devices. Blocks have one dimension, of THREADS threads, a multiple of 32.

static __device__ __forceinline__ float greater_or_nan(float x, float y) {
  return x > y || x != x ? x : y;
}
static __device__ __forceinline__ float sum_of_warp(float v) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) v += __shfl_xor_sync(0xffffffffu, v, apart);
  return v;
}
static __device__ __forceinline__ float greatest_of_warp(float v) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) v = greater_or_nan(v, __shfl_xor_sync(0xffffffffu, v, apart));
  return v;
}
// Of the block, for each of its threads; `scratch` in shared memory has THREADS / 32 numbers. NaN is greatest.
template <int THREADS>
static __device__ __forceinline__ float sum_of_block(float v, float* scratch) {
  static_assert(THREADS % 32 == 0, "blocks consist of whole warps");
  v = sum_of_warp(v);
  if constexpr (THREADS > 32) {
    __syncthreads();  // what was there before has been read
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0.0f;
#pragma unroll
    for (int w = 0; w < THREADS / 32; ++w) v += scratch[w];
  }
  return v;
}
template <int THREADS>
static __device__ __forceinline__ float greatest_of_block(float v, float* scratch) {
  static_assert(THREADS % 32 == 0, "blocks consist of whole warps");
  v = greatest_of_warp(v);
  if constexpr (THREADS > 32) {
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = scratch[0];
#pragma unroll
    for (int w = 1; w < THREADS / 32; ++w) v = greater_or_nan(v, scratch[w]);
  }
  return v;
}
// What a thread has of a row of `columns` elements, a multiple of 4, which begins at a multiple of 16 bytes (8 of half
// types); `outside` where there is none.
template <int THREADS, int N>
static __device__ __forceinline__ void load_row_of_block(float (&v)[N], const float* row, int columns, float outside) {
  static_assert(N % 4 == 0, "a thread has pieces of four elements");
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const int column = (i / 4 * THREADS + (int)threadIdx.x) * 4;
    const float4 x = column < columns ? *(const float4*)(row + column) : make_float4(outside, outside, outside, outside);
    v[i] = x.x, v[i + 1] = x.y, v[i + 2] = x.z, v[i + 3] = x.w;
  }
}
template <int THREADS, int N>
static __device__ __forceinline__ void store_row_of_block(float* row, const float (&v)[N], int columns) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const int column = (i / 4 * THREADS + (int)threadIdx.x) * 4;
    if (column < columns) *(float4*)(row + column) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
  }
}
template <int THREADS, bool BFLOAT16, int N>
static __device__ __forceinline__ void cudal1_load_row(float (&v)[N], const unsigned short* row, int columns,
                                                       float outside) {
  static_assert(N % 4 == 0, "a thread has pieces of four elements");
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const int column = (i / 4 * THREADS + (int)threadIdx.x) * 4;
    const bool real = column < columns;
    const uint2 x = real ? *(const uint2*)(row + column) : make_uint2(0, 0);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const unsigned short bits = (unsigned short)((j < 2 ? x.x : x.y) >> j % 2 * 16);
      v[i + j] = !real ? outside : BFLOAT16 ? float_of_bfloat16(bits) : float_of_half(bits);
    }
  }
}
template <int THREADS, bool BFLOAT16, int N>
static __device__ __forceinline__ void cudal1_store_row(unsigned short* row, const float (&v)[N], int columns) {
#pragma unroll
  for (int i = 0; i < N; i += 4) {
    const int column = (i / 4 * THREADS + (int)threadIdx.x) * 4;
    if (column >= columns) continue;
    const unsigned low = BFLOAT16 ? bfloat16_pair_of_floats(v[i], v[i + 1]) : half_pair_of_floats(v[i], v[i + 1]);
    const unsigned high =
        BFLOAT16 ? bfloat16_pair_of_floats(v[i + 2], v[i + 3]) : half_pair_of_floats(v[i + 2], v[i + 3]);
    *(uint2*)(row + column) = make_uint2(low, high);
  }
}
template <int THREADS, int N>
static __device__ __forceinline__ void load_half_row_of_block(float (&v)[N], const unsigned short* row, int columns,
                                                     float outside) {
  cudal1_load_row<THREADS, false>(v, row, columns, outside);
}
template <int THREADS, int N>
static __device__ __forceinline__ void load_bfloat16_row_of_block(float (&v)[N], const unsigned short* row, int columns,
                                                         float outside) {
  cudal1_load_row<THREADS, true>(v, row, columns, outside);
}
template <int THREADS, int N>
static __device__ __forceinline__ void store_half_row_of_block(unsigned short* row, const float (&v)[N], int columns) {
  cudal1_store_row<THREADS, false>(row, v, columns);
}
template <int THREADS, int N>
static __device__ __forceinline__ void store_bfloat16_row_of_block(unsigned short* row, const float (&v)[N], int columns) {
  cudal1_store_row<THREADS, true>(row, v, columns);
}
