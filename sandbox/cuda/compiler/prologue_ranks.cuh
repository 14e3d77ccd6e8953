// Ranks: numbers that order elements with their places in a row, the greater one first, and no two alike. A warp keeps
// the greatest of those that its lanes have.
static __device__ __forceinline__ long long no_rank() {
  return -0x7fffffffffffffffll - 1;
}
// Of element `x` at `place`: where x is greater or smaller, and then where the place is smaller. NaN is greater than all.
static __device__ __forceinline__ long long rank_of_greater(float x, int place) {
  int bits = x != x ? 0x7fffffff : __float_as_int(x + 0.0f);
  bits ^= (bits >> 31) & 0x7fffffff;
  return (long long)((unsigned long long)(unsigned)bits << 32 | (unsigned)(0x7fffffff - place));
}
static __device__ __forceinline__ long long rank_of_smaller(float x, int place) {
  int bits = x != x ? 0x7fffffff : __float_as_int(x + 0.0f);
  bits ^= (bits >> 31) & 0x7fffffff;
  return (long long)((unsigned long long)(unsigned)~bits << 32 | (unsigned)(0x7fffffff - place));
}
static __device__ __forceinline__ int place_of_rank(long long rank) {
  return 0x7fffffff - (int)(rank & 0x7fffffffll);
}
// One rank of each lane, the greatest in lane 0: of any, and of those that rise and then fall, or the reverse.
static __device__ __forceinline__ long long sort_ranks(long long v) {
  const int lane = threadIdx.x & 31;
  #pragma unroll
  for (int size = 2; size <= 32; size *= 2) {
    const bool falls = size == 32 || (lane & size) == 0;
    #pragma unroll
    for (int step = size / 2; step > 0; step /= 2) {
      const long long other = __shfl_xor_sync(0xffffffffu, v, step);
      v = (other > v) != (((lane & step) != 0) == falls) ? other : v;
    }
  }
  return v;
}
static __device__ __forceinline__ long long sort_bitonic_ranks(long long v) {
  const int lane = threadIdx.x & 31;
  #pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const long long other = __shfl_xor_sync(0xffffffffu, v, step);
    v = (other > v) != ((lane & step) != 0) ? other : v;
  }
  return v;
}
// The 32 N greatest of `kept`, rank q of lane l being the (32 q + l)-th, and of one more of each lane; both are sorted.
template <int N>
static __device__ __forceinline__ void merge_ranks(long long (&kept)[N], long long v) {
  const int lane = threadIdx.x & 31;
  #pragma unroll
  for (int q = 0; q < N; ++q) {
    const long long other = __shfl_sync(0xffffffffu, v, 31 - lane);
    v = kept[q] > other ? other : kept[q];
    kept[q] = sort_bitonic_ranks(kept[q] > other ? kept[q] : other);
    if (q + 1 < N) v = sort_bitonic_ranks(v);
  }
}
// Those of `v` that are greater than `limit`, the k-th of `kept` (k at most 32 N), wait in the warp's 64 places of shared
// memory, `count` of them, and are merged 32 at a time. At last merge_waiting_ranks.
template <int N, int V>
static __device__ __forceinline__ void keep_greatest_ranks(long long (&kept)[N], long long& limit, long long* waiting,
                                                           int& count, const long long (&v)[V], int k) {
  const int lane = threadIdx.x & 31;
  bool any = false;
  #pragma unroll
  for (int i = 0; i < V; ++i) any = any || v[i] > limit;
  if (!__any_sync(0xffffffffu, any)) return;
  #pragma unroll
  for (int i = 0; i < V; ++i) {
    const unsigned taken = __ballot_sync(0xffffffffu, v[i] > limit);
    if (taken == 0) continue;
    if (v[i] > limit) waiting[count + __popc(taken & ((1u << lane) - 1u))] = v[i];
    count += __popc(taken);
    __syncwarp();
    if (count < 32) continue;
    merge_ranks(kept, sort_ranks(waiting[lane]));
    const long long rest = waiting[32 + lane];
    __syncwarp();
    waiting[lane] = rest;
    __syncwarp();
    count -= 32;
    limit = __shfl_sync(0xffffffffu, kept[N - 1], (k - 1) & 31);
  }
}
template <int N>
static __device__ __forceinline__ void merge_waiting_ranks(long long (&kept)[N], const long long* waiting, int count) {
  const int lane = threadIdx.x & 31;
  merge_ranks(kept, sort_ranks(lane < count ? waiting[lane] : no_rank()));
}
