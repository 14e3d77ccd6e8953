// Tensor cores and asynchronous copies: for programs that name any of these functions.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "mma_m16n8k*, load_matrix_x*, copy_async and tf32_of_float need a GPU of compute capability 8.0 or newer"
#endif
static __device__ __forceinline__ unsigned tf32_of_float(float v) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}
// With ties to even, as most convolutions of cuDNN round what they are given on compute capability 9.0.
static __device__ __forceinline__ unsigned tf32_even_of_float(float v) {
  unsigned bits = __float_as_uint(v);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm("cvt.rn.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
#else
  return ((bits & 0x7fffffffu) > 0x7f800000u ? bits : bits + 0xfffu + (bits >> 13 & 1u)) & 0xffffe000u;
#endif
}
// Fragments of lane i, with r = i / 4 and c = i % 4. d: d[0] and d[1] are (r, 2c) and (r, 2c + 1), d[2] and d[3] those
// of row r + 8. TF32: a is (r, c), (r + 8, c), (r, c + 4), (r + 8, c + 4), b is (c, r), (c + 4, r). Half types, in
// pairs: a is (r, 2c), (r + 8, 2c), (r, 2c + 8), (r + 8, 2c + 8) and in the high bits the next column, b is (2c, r),
// (2c + 8, r) and in the high bits the next row.
#define CUDAL1_MMA(NAME, KIND)                                                                                  \
  static __device__ __forceinline__ void NAME(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {  \
    asm volatile("mma.sync.aligned." KIND " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"              \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                               \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                           \
  }
CUDAL1_MMA(mma_m16n8k8_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")
CUDAL1_MMA(mma_m16n8k16_half, "m16n8k16.row.col.f32.f16.f16.f32")
CUDAL1_MMA(mma_m16n8k16_bfloat16, "m16n8k16.row.col.f32.bf16.bf16.f32")
#undef CUDAL1_MMA
// 8x8 matrices of 16-bit elements from shared memory: lane i gives the address of row i % 8 of matrix i / 8, and gets
// of each matrix element (i / 4, 2 (i % 4)) and the next in its row; transposed, the same of the transposed matrix.
#define CUDAL1_LOAD_MATRIX(SUFFIX, TRANSPOSED)                                                       \
  static __device__ __forceinline__ void load_matrix_x4##SUFFIX(unsigned (&r)[4], const void* row) { \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4" TRANSPOSED ".shared.b16 {%0,%1,%2,%3}, [%4];"       \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                    \
                 : "r"((unsigned)__cvta_generic_to_shared(row))                                      \
                 : "memory");                                                                        \
  }                                                                                                  \
  static __device__ __forceinline__ void load_matrix_x2##SUFFIX(unsigned (&r)[2], const void* row) { \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2" TRANSPOSED ".shared.b16 {%0,%1}, [%2];"             \
                 : "=r"(r[0]), "=r"(r[1])                                                            \
                 : "r"((unsigned)__cvta_generic_to_shared(row))                                      \
                 : "memory");                                                                        \
  }
CUDAL1_LOAD_MATRIX(, "")
CUDAL1_LOAD_MATRIX(_transposed, ".trans")
#undef CUDAL1_LOAD_MATRIX
// From global to shared memory, both multiples of BYTES; zeros where !real, and nothing is read. 16 bypasses L1.
template <int BYTES>
static __device__ __forceinline__ void copy_async(void* shared, const void* global, bool real) {
  static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "copy_async copies 4, 8 or 16 bytes");
  const unsigned to = (unsigned)__cvta_generic_to_shared(shared);
  const int size = real ? BYTES : 0;
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(size) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(global), "r"(size), "n"(BYTES)
                 : "memory");
}
static __device__ __forceinline__ void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
// Until at most GROUPS of this thread's groups are under way; then a barrier shows the copies to other threads.
template <int GROUPS>
static __device__ __forceinline__ void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}
