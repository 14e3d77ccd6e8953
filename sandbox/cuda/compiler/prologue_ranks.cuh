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
// The element that a rank is of, or NaN of one that is less than all.
template <bool GREATER>
static __device__ __forceinline__ float element_of_rank(long long rank) {
  const int bits = GREATER ? (int)(rank >> 32) : ~(int)(rank >> 32);
  return __int_as_float(bits ^ ((bits >> 31) & 0x7fffffff));
}
// The k greatest (or smallest) so far, k at most 32 N, of what a warp's lanes hand in: element i (of 32 at most) of `x` is at
// `place` + i / WIDTH * `apart` + i % WIDTH, and counts where that is below `columns`. Those that beat `limit`, the k-th
// of `kept`, wait in the warp's 64 places of shared memory, `count` of them, and are merged 32 at a time. At last
// merge_waiting_ranks.
template <bool GREATER, int WIDTH, int N, int V>
static __device__ __forceinline__ void keep_ranks(long long (&kept)[N], long long& limit, long long* waiting, int& count,
                                                  const float (&x)[V], int place, int apart, int columns, int k) {
  static_assert(V <= 32, "keep_ranks takes at most 32 elements of a lane");
  const int lane = threadIdx.x & 31;
  const float least = element_of_rank<GREATER>(limit);
  unsigned mine = 0;  // elements that may beat it; NaN does not compare
  #pragma unroll
  for (int i = 0; i < V; ++i) mine |= (GREATER ? !(x[i] < least) : !(x[i] > least)) ? 1u << i : 0u;
  while (__any_sync(0xffffffffu, mine != 0)) {
    const int i = mine != 0 ? __ffs((int)mine) - 1 : 0;
    float own = x[0];
    #pragma unroll
    for (int j = 1; j < V; ++j) own = j == i ? x[j] : own;
    const int at = place + i / WIDTH * apart + i % WIDTH;
    const long long rank = mine == 0 || at >= columns ? no_rank()
                           : GREATER                  ? rank_of_greater(own, at)
                                                      : rank_of_smaller(own, at);
    mine &= mine - 1;
    const unsigned taken = __ballot_sync(0xffffffffu, rank > limit);
    if (taken == 0) continue;
    if (rank > limit) waiting[count + __popc(taken & ((1u << lane) - 1u))] = rank;
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
// What the first warp keeps is then the greatest of what so many warps of the block have kept, a power of two; `found`:
// 32 N places for each in shared memory. A barrier of the block.
template <int N>
static __device__ __forceinline__ void merge_ranks_of_warps(long long (&kept)[N], long long* found, int warps) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  #pragma unroll 1
  for (int half = warps / 2; half > 0; half /= 2) {
    #pragma unroll
    for (int q = 0; q < N; ++q) found[(warp * N + q) * 32 + lane] = kept[q];
    __syncthreads();
    if (warp < half) {
      #pragma unroll 1
      for (int q = 0; q < N; ++q) merge_ranks(kept, found[((warp + half) * N + q) * 32 + lane]);
    }
    __syncthreads();
  }
}
