// A thread of a kernel: its indices, and the operations that meet other threads. The program's functions that need one
// are members of a struct derived from this, so that `threadIdx` is a local value that the optimiser sees through.

typedef cudal1_tensor_map tensor_map;

// Kernels run one after another here.
static __forceinline__ void wait_for_previous_kernel() {}
static __forceinline__ void let_next_kernel_begin() {}

// The products of a warpgroup, which are members of the state below.
#define CUDAL1_GROUP_MMA(N, NAME, TYPE, TRANSPOSED)                                                             \
  void warpgroup_mma_m64n##N##k16_##NAME(float(&d)[(N) / 8][4], const void* a, const void* b, bool add) const { \
    cudal1_rt_group_mma(cudal1_fiber, &d[0][0], a, b, N, add, cudal1_warp_mma_##TYPE, TRANSPOSED);              \
  }
#define CUDAL1_GROUP_MMA_OF_QUADS(N)                                                                                  \
  void warpgroup_mma_m64n##N##k8_quads(float(&d)[(N) / 8][4], const float* a, int a_step, int a_rows, const float* b, \
                                       int b_step) const {                                                            \
    const cudal1_quads of = {a, b, a_step, a_rows, b_step};                                                           \
    cudal1_rt_group_mma_quads(cudal1_fiber, &d[0][0], &of, N);                                                        \
  }
#define CUDAL1_GROUP_MMAS(N)                    \
  CUDAL1_GROUP_MMA(N, half, half, 0)            \
  CUDAL1_GROUP_MMA(N, half_transposed, half, 1) \
  CUDAL1_GROUP_MMA(N, bfloat16, bfloat16, 0)    \
  CUDAL1_GROUP_MMA(N, bfloat16_transposed, bfloat16, 1)

struct cudal1_state {
  const uint3 threadIdx, blockIdx;
  const dim3 blockDim, gridDim;
  const int cudal1_global_x_;  // blockIdx.x * blockDim.x + threadIdx.x, without unsigned wrap
  const bool cudal1_full;      // every guard of the form `i < n` holds for the whole row of threads
  void* const cudal1_fiber;    // null in a loop kernel
  char* const cudal1_dynamic_shared;

  __forceinline__ unsigned cudal1_global_x() const { return (unsigned)cudal1_global_x_; }

  int cudal1_lane() const { return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u); }

  void __syncthreads() const { cudal1_rt_barrier(cudal1_fiber, cudal1_barrier_sync, 0); }
  int __syncthreads_count(int predicate) const {
    return cudal1_rt_barrier(cudal1_fiber, cudal1_barrier_count, predicate != 0);
  }
  int __syncthreads_and(int predicate) const {
    return cudal1_rt_barrier(cudal1_fiber, cudal1_barrier_and, predicate != 0);
  }
  int __syncthreads_or(int predicate) const {
    return cudal1_rt_barrier(cudal1_fiber, cudal1_barrier_or, predicate != 0);
  }

  unsigned cudal1_warp(int operation, unsigned mask, unsigned value) const {
    return (unsigned)cudal1_rt_warp(cudal1_fiber, operation, mask, value, 0);
  }
  void __syncwarp(unsigned mask = 0xffffffffu) const { cudal1_warp(cudal1_warp_sync, mask, 0); }
  unsigned __ballot_sync(unsigned mask, int predicate) const {
    return cudal1_warp(cudal1_warp_ballot, mask, predicate != 0);
  }
  int __any_sync(unsigned mask, int predicate) const { return (int)cudal1_warp(cudal1_warp_any, mask, predicate != 0); }
  int __all_sync(unsigned mask, int predicate) const { return (int)cudal1_warp(cudal1_warp_all, mask, predicate != 0); }
  unsigned __activemask() const { return cudal1_rt_active_mask(cudal1_fiber); }

  template <class T>
  static unsigned long long cudal1_pack(T value) {
    static_assert(sizeof(T) <= 8, "shuffles and matches take values of at most 64 bits");
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
  }
  template <class T>
  T cudal1_shuffle(unsigned mask, T value, int source) const {
    const unsigned long long bits = cudal1_rt_warp(cudal1_fiber, cudal1_warp_shuffle, mask, cudal1_pack(value), source);
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  template <class T>
  T __shfl_sync(unsigned mask, T value, int source, int width = 32) const {
    const int segment = cudal1_lane() & ~(width - 1);
    return cudal1_shuffle(mask, value, segment | (source & (width - 1)));
  }
  template <class T>
  T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) const {
    const int lane = cudal1_lane(), source = lane - (int)delta;
    return cudal1_shuffle(mask, value, source < (lane & ~(width - 1)) ? lane : source);
  }
  template <class T>
  T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) const {
    const int lane = cudal1_lane(), source = lane + (int)delta;
    return cudal1_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source);
  }
  template <class T>
  T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32) const {
    const int lane = cudal1_lane(), source = lane ^ lane_mask;
    return cudal1_shuffle(mask, value, source > (lane | (width - 1)) ? lane : source & 31);
  }
  template <class T>
  unsigned __match_any_sync(unsigned mask, T value) const {
    return (unsigned)cudal1_rt_warp(cudal1_fiber, cudal1_warp_match_any, mask, cudal1_pack(value), 0);
  }
  unsigned __reduce_add_sync(unsigned mask, unsigned v) const { return cudal1_warp(cudal1_warp_add, mask, v); }
  int __reduce_add_sync(unsigned mask, int v) const { return (int)cudal1_warp(cudal1_warp_add, mask, (unsigned)v); }
  unsigned __reduce_min_sync(unsigned mask, unsigned v) const { return cudal1_warp(cudal1_warp_min_unsigned, mask, v); }
  unsigned __reduce_max_sync(unsigned mask, unsigned v) const { return cudal1_warp(cudal1_warp_max_unsigned, mask, v); }
  int __reduce_min_sync(unsigned mask, int v) const {
    return (int)cudal1_warp(cudal1_warp_min_signed, mask, (unsigned)v);
  }
  int __reduce_max_sync(unsigned mask, int v) const {
    return (int)cudal1_warp(cudal1_warp_max_signed, mask, (unsigned)v);
  }
  unsigned __reduce_and_sync(unsigned mask, unsigned v) const { return cudal1_warp(cudal1_warp_and, mask, v); }
  unsigned __reduce_or_sync(unsigned mask, unsigned v) const { return cudal1_warp(cudal1_warp_or, mask, v); }
  unsigned __reduce_xor_sync(unsigned mask, unsigned v) const { return cudal1_warp(cudal1_warp_xor, mask, v); }

  // Tensor cores: the runtime computes what the 32 lanes get when the last of them arrives.
  template <class Part>
  void cudal1_whole_warp(int operation, const Part& part) const {
    cudal1_rt_warp(cudal1_fiber, operation, 0xffffffffu, (unsigned long long)&part, 0);
  }
  void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) const {
    cudal1_whole_warp(cudal1_warp_mma_tf32, cudal1_product_part{d, a, b});
  }
  void mma_m16n8k16_half(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) const {
    cudal1_whole_warp(cudal1_warp_mma_half, cudal1_product_part{d, a, b});
  }
  void mma_m16n8k16_bfloat16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) const {
    cudal1_whole_warp(cudal1_warp_mma_bfloat16, cudal1_product_part{d, a, b});
  }
  void load_matrix_x2(unsigned (&r)[2], const void* row) const {
    cudal1_whole_warp(cudal1_warp_load_x2, cudal1_load_part{r, row});
  }
  void load_matrix_x4(unsigned (&r)[4], const void* row) const {
    cudal1_whole_warp(cudal1_warp_load_x4, cudal1_load_part{r, row});
  }
  void load_matrix_x2_transposed(unsigned (&r)[2], const void* row) const {
    cudal1_whole_warp(cudal1_warp_load_x2_transposed, cudal1_load_part{r, row});
  }
  void load_matrix_x4_transposed(unsigned (&r)[4], const void* row) const {
    cudal1_whole_warp(cudal1_warp_load_x4_transposed, cudal1_load_part{r, row});
  }

  template <int BYTES>
  void copy_async(void* shared, const void* global, bool real) const {
    static_assert(BYTES == 4 || BYTES == 8 || BYTES == 16, "copy_async copies 4, 8 or 16 bytes");
    cudal1_rt_copy(cudal1_fiber, shared, global, BYTES, real);
  }
  void copy_async_commit() const { cudal1_rt_copy_commit(cudal1_fiber); }
  template <int GROUPS>
  void copy_async_wait() const {
    static_assert(GROUPS >= 0);
    cudal1_rt_copy_wait(cudal1_fiber, GROUPS);
  }

  void fence_shared_async() const {}
  void warpgroup_fence() const {}
  void warpgroup_commit() const { cudal1_rt_group_commit(cudal1_fiber); }
  template <int GROUPS>
  void warpgroup_wait() const {
    static_assert(GROUPS >= 0);
    cudal1_rt_group_wait(cudal1_fiber, GROUPS);
  }
  template <int GROUPS, int N>
  void warpgroup_wait(float (&)[N][4]) const {
    warpgroup_wait<GROUPS>();
  }
  CUDAL1_GROUP_MMAS(64)
  CUDAL1_GROUP_MMAS(128)
  CUDAL1_GROUP_MMAS(192)
  CUDAL1_GROUP_MMAS(256)
  CUDAL1_GROUP_MMA_OF_QUADS(16)
  CUDAL1_GROUP_MMA_OF_QUADS(32)
  CUDAL1_GROUP_MMA_OF_QUADS(64)

  void grid_sync() const { cudal1_rt_barrier(cudal1_fiber, cudal1_barrier_grid, 0); }

  void transfer_init(unsigned long long* barrier, int arrivals) const {
    cudal1_rt_transfer(cudal1_fiber, barrier, cudal1_transfer_init, arrivals);
  }
  void transfer_arrive(unsigned long long* barrier) const {
    cudal1_rt_transfer(cudal1_fiber, barrier, cudal1_transfer_arrive, 0);
  }
  void transfer_expect(unsigned long long* barrier, int bytes) const {
    cudal1_rt_transfer(cudal1_fiber, barrier, cudal1_transfer_arrive, bytes);
  }
  void transfer_wait(unsigned long long* barrier, int parity) const {
    cudal1_rt_transfer(cudal1_fiber, barrier, cudal1_transfer_wait, parity);
  }
  template <class... Place>
  void load_tile(void* shared, const tensor_map& map, unsigned long long* barrier, Place... place) const {
    static_assert(sizeof...(Place) >= 1 && sizeof...(Place) <= 5, "a tile's place has one to five coordinates");
    const int at[] = {(int)place...};
    cudal1_rt_tile(cudal1_fiber, &map, shared, barrier, at, (int)sizeof...(Place));
  }
  template <class... Place>
  void store_tile(const tensor_map& map, const void* shared, Place... place) const {
    static_assert(sizeof...(Place) >= 1 && sizeof...(Place) <= 5, "a tile's place has one to five coordinates");
    const int at[] = {(int)place...};
    cudal1_rt_tile(cudal1_fiber, &map, (void*)shared, nullptr, at, (int)sizeof...(Place));
  }
  void store_tile_commit() const { cudal1_rt_tile_commit(cudal1_fiber); }
  template <int GROUPS>
  void store_tile_wait() const {
    static_assert(GROUPS >= 0);
    cudal1_rt_tile_wait(cudal1_fiber, GROUPS);
  }

  unsigned cluster_rank() const { return cudal1_rt_cluster_rank(cudal1_fiber); }
  unsigned cluster_size() const { return cudal1_rt_cluster_size(cudal1_fiber); }
  void cluster_sync() const { cudal1_rt_barrier(cudal1_fiber, cudal1_barrier_cluster, 0); }
  float load_cluster(const float* shared, unsigned rank) const {
    return *(const float*)cudal1_rt_cluster_address(cudal1_fiber, shared, sizeof *shared, rank);
  }
  void store_cluster(float* shared, unsigned rank, float v) const {
    *(float*)cudal1_rt_cluster_address(cudal1_fiber, shared, sizeof *shared, rank) = v;
  }
};
#undef CUDAL1_GROUP_MMAS
#undef CUDAL1_GROUP_MMA

// What a kernel's parameters are: its entry point reads them from the launch's argument pointers.
template <class T>
struct cudal1_value {
  typedef T type;
};
template <class T>
struct cudal1_value<T&> {
  static_assert(sizeof(T) == 0, "a kernel's parameter cannot be a reference");
};
template <int... I>
struct cudal1_indices {};

template <class Method>
struct cudal1_parameters;
template <class Program, class... P>
struct cudal1_parameters<void (Program::*)(P...)> {
  static constexpr int count = sizeof...(P);
  template <class Call>
  CUDAL1_INLINE auto with(void* const* arguments, Call call) {
    return with(arguments, call, cudal1_indices<__integer_pack((int)sizeof...(P))...>{});
  }
  template <class Call, int... I>
  CUDAL1_INLINE auto with(void* const* arguments, Call call, cudal1_indices<I...>) {
    return call(*(const typename cudal1_value<P>::type*)arguments[I]...);
  }
};
template <class Program, class R, class... P>
struct cudal1_parameters<R (Program::*)(P...)> {
  static_assert(sizeof(R) == 0, "a kernel returns void");
};
