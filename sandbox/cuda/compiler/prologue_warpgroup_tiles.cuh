// Products of warpgroups of tiles of shared memory. The same text for all devices.

template <bool BFLOAT16, int ACROSS>
static __device__ __forceinline__ void cudal1_multiply_64_rows(float (&sums)[ACROSS][4], const unsigned short* a,
                                                               const unsigned short* b) {
  static_assert(ACROSS == 8 || ACROSS == 16 || ACROSS == 24 || ACROSS == 32, "64, 128, 192 or 256 columns");
  if constexpr (ACROSS == 8) {
    BFLOAT16 ? warpgroup_mma_m64n64k16_bfloat16(sums, a, b, true) : warpgroup_mma_m64n64k16_half(sums, a, b, true);
  } else if constexpr (ACROSS == 16) {
    BFLOAT16 ? warpgroup_mma_m64n128k16_bfloat16(sums, a, b, true) : warpgroup_mma_m64n128k16_half(sums, a, b, true);
  } else if constexpr (ACROSS == 24) {
    BFLOAT16 ? warpgroup_mma_m64n192k16_bfloat16(sums, a, b, true) : warpgroup_mma_m64n192k16_half(sums, a, b, true);
  } else {
    BFLOAT16 ? warpgroup_mma_m64n256k16_bfloat16(sums, a, b, true) : warpgroup_mma_m64n256k16_half(sums, a, b, true);
  }
}
// sums += of 64 rows of tile `a` from `row` on, which is a multiple of 8, and all columns of tile `b` (columns x terms),
// by four warps, the first of which is a multiple of four: shared_tile<unsigned short, N, 64> of MMA = mma_half or
// mma_bfloat16, at multiples of 1024 bytes. Each warp has 16 of the rows, as for_each_pair takes them from row + warp % 4 * 16 on. Threads that
// copied parts of a tile have called fence_shared_async() before the barrier (for_stages: its last argument).
template <class MMA, class A, class B, int ACROSS>
static __device__ __forceinline__ void multiply_abt_by_warpgroup(float (&sums)[1][ACROSS][4], const unsigned short* a,
                                                                 const unsigned short* b, int row) {
  static_assert(A::is_swizzled && B::is_swizzled && A::columns == 64 && B::columns == 64, "warpgroups read shared_tiles with lines of 64 elements");
  static_assert(B::rows == 8 * ACROSS, "the sums have all columns of the tile");
  static_assert(MMA::depth == 16, "warpgroups multiply half types");
  warpgroup_fence();
#pragma unroll
  for (int term = 0; term < 64; term += 16)
    cudal1_multiply_64_rows<MMA::is_bfloat16>(sums[0], a + row * 64 + term, b + term);
  warpgroup_commit();
  warpgroup_wait<0>(sums[0]);
}
