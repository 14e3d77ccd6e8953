// Products of a warpgroup, four warps, from shared memory: for programs that call any of these functions.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "warpgroup_mma_* and warpgroup_* need a GPU of compute capability 9.0 (H100, H200, GH200)"
#endif
// Before the first product of a group, and wherever the registers of a sum were used between products.
static __device__ __forceinline__ void warpgroup_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ __forceinline__ void warpgroup_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most GROUPS of the warpgroup's groups are under way; only then are their sums known, and may what they read
// be overwritten.
template <int GROUPS>
static __device__ __forceinline__ void warpgroup_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(GROUPS) : "memory");
}
// The same, and the compiler may not read these sums before.
template <int GROUPS, int N>
static __device__ __forceinline__ void warpgroup_wait(float (&d)[N][4]) {
  warpgroup_wait<GROUPS>();
#pragma unroll
  for (int n = 0; n < N; ++n)
    asm volatile("" : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])::"memory");
}
// d = a b^T, plus d where `add`: of 64 and N rows of 16 elements of a half type, N = 64, 128, 192 or 256, which lie 128
// bytes apart in shared memory. `a` and `b` are the address of the first row's first element, 0, 32, 64 or 96 bytes from
// a multiple of 1024, if the 16-byte pieces of a row were in their order; in fact piece p of row r is in the place of
// piece p ^ (r % 8). Lane i of warp w has rows 16 w + i / 4 (d[n][0], d[n][1]) and 8 below it (d[n][2], d[n][3]), columns 8 n + 2 (i % 4) and the next.
static __device__ __forceinline__ unsigned long long cudal1_swizzled_tile(const void* first) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(first);
  return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
// d = a b, plus d where `add`, for the functions that end with _transposed: of 16 rows of N elements of b, as they are in
// a row-major matrix. Strips of 64 columns lie 8192 bytes apart, the rows of a strip 128; `b` is the first of the 16
// rows, at a multiple of 1024, and pieces of rows are in the places that they have above.
static __device__ __forceinline__ unsigned long long cudal1_swizzled_strips(const void* first) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(first);
  return (unsigned long long)((at & 0x3ffff) >> 4) | 512ull << 16 | 64ull << 32 | 1ull << 62;
}
// d += a b^T, for the functions that end with _quads: of 64 and N rows of 8 floats, N = 16, 32 or 64, of which TF32 takes
// the upper 19 bits: 4 neighbours of a row are 16 bytes at a multiple of 16, those of the next row follow, and the other
// 4 lie `a_step` or `b_step` bytes on. After 8 rows of a the next 8 begin `a_rows` bytes behind these; b's follow.
static __device__ __forceinline__ unsigned long long cudal1_quads(const float* first, int step, int rows) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(first);
  return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(step >> 4) << 16 |
         (unsigned long long)(rows >> 4) << 32;
}
#define CUDAL1_SUMS(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define CUDAL1_SUMS_16(n) CUDAL1_SUMS(n), CUDAL1_SUMS(n + 1)
#define CUDAL1_SUMS_32(n) CUDAL1_SUMS_16(n), CUDAL1_SUMS_16(n + 2)
#define CUDAL1_SUMS_64(n)                                                                                            \
  CUDAL1_SUMS(n), CUDAL1_SUMS(n + 1), CUDAL1_SUMS(n + 2), CUDAL1_SUMS(n + 3), CUDAL1_SUMS(n + 4), CUDAL1_SUMS(n + 5), \
      CUDAL1_SUMS(n + 6), CUDAL1_SUMS(n + 7)
#define CUDAL1_SUMS_128(n) CUDAL1_SUMS_64(n), CUDAL1_SUMS_64(n + 8)
#define CUDAL1_SUMS_192(n) CUDAL1_SUMS_128(n), CUDAL1_SUMS_64(n + 16)
#define CUDAL1_SUMS_256(n) CUDAL1_SUMS_128(n), CUDAL1_SUMS_128(n + 16)
#define CUDAL1_PLACES_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define CUDAL1_PLACES_32 CUDAL1_PLACES_16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define CUDAL1_PLACES_64 \
  "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15" "," \
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define CUDAL1_PLACES_128 CUDAL1_PLACES_64 "," \
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" "," \
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define CUDAL1_PLACES_192 CUDAL1_PLACES_128 "," \
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" "," \
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define CUDAL1_PLACES_256 CUDAL1_PLACES_192 "," \
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" "," \
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define CUDAL1_WARPGROUP_MMA_OF(N, NAME, TYPE, A, B, ADD, PLACE_OF_B, TRANSPOSED)                                    \
  static __device__ __forceinline__ void warpgroup_mma_m64n##N##k16_##NAME(float (&d)[N / 8][4], const void* a,      \
                                                                           const void* b, bool add) {                \
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %" #ADD                                               \
                 ", 0;\n\twgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" CUDAL1_PLACES_##N     \
                 "}, %" #A ", %" #B ", adds, 1, 1, 0, " #TRANSPOSED ";\n\t}"                                        \
                 : CUDAL1_SUMS_##N(0)                                                                                \
                 : "l"(cudal1_swizzled_tile(a)), "l"(PLACE_OF_B(b)), "r"((int)add)                                   \
                 : "memory");                                                                                        \
  }
#define CUDAL1_WARPGROUP_MMA(N, NAME, TYPE, A, B, ADD)                                    \
  CUDAL1_WARPGROUP_MMA_OF(N, NAME, TYPE, A, B, ADD, cudal1_swizzled_tile, 0)              \
  CUDAL1_WARPGROUP_MMA_OF(N, NAME##_transposed, TYPE, A, B, ADD, cudal1_swizzled_strips, 1)
CUDAL1_WARPGROUP_MMA(64, half, f16, 32, 33, 34)
CUDAL1_WARPGROUP_MMA(64, bfloat16, bf16, 32, 33, 34)
CUDAL1_WARPGROUP_MMA(128, half, f16, 64, 65, 66)
CUDAL1_WARPGROUP_MMA(128, bfloat16, bf16, 64, 65, 66)
CUDAL1_WARPGROUP_MMA(192, half, f16, 96, 97, 98)
CUDAL1_WARPGROUP_MMA(192, bfloat16, bf16, 96, 97, 98)
CUDAL1_WARPGROUP_MMA(256, half, f16, 128, 129, 130)
CUDAL1_WARPGROUP_MMA(256, bfloat16, bf16, 128, 129, 130)
#define CUDAL1_WARPGROUP_MMA_OF_QUADS(N, A, B)                                                                          \
  static __device__ __forceinline__ void warpgroup_mma_m64n##N##k8_quads(float (&d)[N / 8][4], const float* a,       \
                                                                         int a_step, int a_rows, const float* b,     \
                                                                         int b_step) {                               \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" CUDAL1_PLACES_##N "}, %" #A ", %" #B     \
                 ", 1, 1, 1;"                                                                                        \
                 : CUDAL1_SUMS_##N(0)                                                                                \
                 : "l"(cudal1_quads(a, a_step, a_rows)), "l"(cudal1_quads(b, b_step, 128))                           \
                 : "memory");                                                                                        \
  }
CUDAL1_WARPGROUP_MMA_OF_QUADS(16, 8, 9)
CUDAL1_WARPGROUP_MMA_OF_QUADS(32, 16, 17)
CUDAL1_WARPGROUP_MMA_OF_QUADS(64, 32, 33)
#undef CUDAL1_WARPGROUP_MMA_OF_QUADS
#undef CUDAL1_WARPGROUP_MMA
#undef CUDAL1_WARPGROUP_MMA_OF
#undef CUDAL1_PLACES_256
#undef CUDAL1_PLACES_192
#undef CUDAL1_PLACES_128
#undef CUDAL1_PLACES_64
#undef CUDAL1_PLACES_32
#undef CUDAL1_PLACES_16
#undef CUDAL1_SUMS_256
#undef CUDAL1_SUMS_192
#undef CUDAL1_SUMS_128
#undef CUDAL1_SUMS_64
#undef CUDAL1_SUMS_32
#undef CUDAL1_SUMS_16
#undef CUDAL1_SUMS
