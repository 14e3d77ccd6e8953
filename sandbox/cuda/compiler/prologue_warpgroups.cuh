// Products of a warpgroup, four warps, from shared memory: for programs that call any of these functions.
#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "warpgroup_mma_*, warpgroup_* and fence_shared_async need a GPU of compute capability 9.0 (H100, H200, GH200)"
#endif
// Between a thread's writes to shared memory (its copies that it has waited for) and the barrier after which
// warpgroups multiply what was written.
static __device__ __forceinline__ void fence_shared_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
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
// d = a b^T, plus d where `add`: of 64 and N rows of 16 elements, which lie 128 bytes apart in shared memory. `a` and
// `b` are the address of the first row's first element, 0, 32, 64 or 96 bytes from a multiple of 1024, if the 16-byte
// pieces of a row were in their order; in fact piece p of row r is in the place of piece p ^ (r % 8). Lane i of warp w
// has rows 16 w + i / 4 (d[n][0], d[n][1]) and 8 below it (d[n][2], d[n][3]), columns 8 n + 2 (i % 4) and the next.
static __device__ __forceinline__ unsigned long long cudal1_swizzled_tile(const void* first) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(first);
  return (unsigned long long)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62;
}
static __device__ __forceinline__ void warpgroup_mma_m64n64k16_half(float (&d)[8][4], const void* a, const void* b,
                                                              bool add) {
  asm volatile(
      "{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %34, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
      "}, %32, %33, adds, 1, 1, 0, 0;\n\t}"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),
        "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]),
        "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]),
        "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3])
      : "l"(cudal1_swizzled_tile(a)), "l"(cudal1_swizzled_tile(b)), "r"((int)add)
      : "memory");
}
static __device__ __forceinline__ void warpgroup_mma_m64n128k16_half(float (&d)[16][4], const void* a, const void* b,
                                                              bool add) {
  asm volatile(
      "{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %66, 0;\n\t"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
      "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
      "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
      "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
      "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
      "}, %64, %65, adds, 1, 1, 0, 0;\n\t}"
      : "+f"(d[0][0]), "+f"(d[0][1]), "+f"(d[0][2]), "+f"(d[0][3]), "+f"(d[1][0]), "+f"(d[1][1]), "+f"(d[1][2]),
        "+f"(d[1][3]), "+f"(d[2][0]), "+f"(d[2][1]), "+f"(d[2][2]), "+f"(d[2][3]), "+f"(d[3][0]), "+f"(d[3][1]),
        "+f"(d[3][2]), "+f"(d[3][3]), "+f"(d[4][0]), "+f"(d[4][1]), "+f"(d[4][2]), "+f"(d[4][3]), "+f"(d[5][0]),
        "+f"(d[5][1]), "+f"(d[5][2]), "+f"(d[5][3]), "+f"(d[6][0]), "+f"(d[6][1]), "+f"(d[6][2]), "+f"(d[6][3]),
        "+f"(d[7][0]), "+f"(d[7][1]), "+f"(d[7][2]), "+f"(d[7][3]), "+f"(d[8][0]), "+f"(d[8][1]), "+f"(d[8][2]),
        "+f"(d[8][3]), "+f"(d[9][0]), "+f"(d[9][1]), "+f"(d[9][2]), "+f"(d[9][3]), "+f"(d[10][0]), "+f"(d[10][1]),
        "+f"(d[10][2]), "+f"(d[10][3]), "+f"(d[11][0]), "+f"(d[11][1]), "+f"(d[11][2]), "+f"(d[11][3]),
        "+f"(d[12][0]), "+f"(d[12][1]), "+f"(d[12][2]), "+f"(d[12][3]), "+f"(d[13][0]), "+f"(d[13][1]),
        "+f"(d[13][2]), "+f"(d[13][3]), "+f"(d[14][0]), "+f"(d[14][1]), "+f"(d[14][2]), "+f"(d[14][3]),
        "+f"(d[15][0]), "+f"(d[15][1]), "+f"(d[15][2]), "+f"(d[15][3])
      : "l"(cudal1_swizzled_tile(a)), "l"(cudal1_swizzled_tile(b)), "r"((int)add)
      : "memory");
}
