// What a compiled object and the library that launches it agree on. This text stands in front of every program, so it
// includes nothing; the library includes it as a header.
#ifndef CUDAL1_DEVICE_ABI
#define CUDAL1_DEVICE_ABI

// A launch, for the entry point `cudal1_run_NAME` of a loop kernel: void(const cudal1_launch*, first, last) runs the
// blocks first..last-1 of the flattened grid (x fastest).
struct cudal1_launch {
  int grid[3];
  int block[3];
  void* const* arguments;
};

// One thread of a fiber kernel, whose entry point is void(const cudal1_fiber_start*).
struct cudal1_fiber_start {
  const cudal1_launch* launch;
  unsigned thread[3];
  unsigned block[3];
  char* dynamic_shared;
  void* fiber;  // handed back to the runtime
};

enum cudal1_kernel_kind { cudal1_loop_kernel = 1, cudal1_fiber_kernel = 2 };

// The constant `cudal1_info_NAME`.
struct cudal1_kernel_info {
  int abi;
  int kind;
  int parameters;
  int cluster[3];  // blocks of the grid that run at the same time and see each other's shared memory
};

enum { cudal1_abi_version = 4 };

enum cudal1_warp_operation {
  cudal1_warp_sync,
  cudal1_warp_shuffle,
  cudal1_warp_ballot,
  cudal1_warp_any,
  cudal1_warp_all,
  cudal1_warp_match_any,
  cudal1_warp_add,
  cudal1_warp_min_signed,
  cudal1_warp_max_signed,
  cudal1_warp_min_unsigned,
  cudal1_warp_max_unsigned,
  cudal1_warp_and,
  cudal1_warp_or,
  cudal1_warp_xor,
  // Of whole warps: the value is the address of the lane's part.
  cudal1_warp_mma_tf32,
  cudal1_warp_mma_half,
  cudal1_warp_mma_bfloat16,
  cudal1_warp_load_x2,
  cudal1_warp_load_x4,
  cudal1_warp_load_x2_transposed,
  cudal1_warp_load_x4_transposed
};

// One lane's part of a product of matrices, its fragments, and of a load of matrices, of which it names one row.
struct cudal1_product_part {
  float* d;
  const unsigned* a;
  const unsigned* b;
};
struct cudal1_load_part {
  unsigned* loaded;
  const void* row;
};

enum cudal1_barrier_operation {
  cudal1_barrier_sync,
  cudal1_barrier_count,
  cudal1_barrier_and,
  cudal1_barrier_or,
  cudal1_barrier_cluster,  // of all blocks of the cluster
  cudal1_barrier_grid      // of all blocks of a cooperative launch
};

// A tensor map, the dialect's type tensor_map: a tensor's first element, and in its order of dimensions the sizes, the
// strides in bytes and the sizes of a box; the bytes of an element, and of the swizzle.
struct cudal1_tensor_map {
  char* data;
  long long size[5], stride[5];
  int box[5];
  int dimensions, element, swizzle;
};

enum cudal1_transfer_operation {
  cudal1_transfer_init,    // with the number of arrivals
  cudal1_transfer_arrive,  // and the bytes that the thread announces
  cudal1_transfer_wait     // for a parity
};

// The runtime: the only functions, beside a few of the C library's, that an object may import.
extern "C" {
int cudal1_rt_barrier(void* fiber, int operation, int predicate);
unsigned long long cudal1_rt_warp(void* fiber, int operation, unsigned mask, unsigned long long value, int lane);
unsigned cudal1_rt_active_mask(void* fiber);
// Asynchronous copies: one of 4, 8 or 16 bytes to shared memory (zeros unless `real`), the end of a group, and the wait
// until at most `groups` groups are under way.
void cudal1_rt_copy(void* fiber, void* shared, const void* global, int bytes, int real);
void cudal1_rt_copy_commit(void* fiber);
void cudal1_rt_copy_wait(void* fiber, int groups);
// Products of a warpgroup: this thread's part of one, `columns` / 2 sums of the product of 64 and `columns` rows of 16
// elements in shared memory (`transposed`: b is 16 rows of `columns` elements), of the half type that
// cudal1_warp_mma_* names; the end of a group, and the wait until at most `groups` groups are under way.
void cudal1_rt_group_mma(void* fiber, float* d, const void* a, const void* b, int columns, int add, int type,
                         int transposed);
// The same of rows of 8 floats as TF32, in quads: 4 neighbours of a row are 16 bytes, the next row's follow, the other
// 4 lie a step on; the next 8 rows of a begin `a_rows` bytes behind 8 rows, those of b follow. It adds to the sums.
struct cudal1_quads {
  const float *a, *b;
  int a_step, a_rows, b_step;
};
void cudal1_rt_group_mma_quads(void* fiber, float* d, const cudal1_quads* of, int columns);
void cudal1_rt_group_commit(void* fiber);
void cudal1_rt_group_wait(void* fiber, int groups);
// The block's place in its cluster, the cluster's blocks, and where a variable in the block's shared memory lies in
// that of the block `rank`.
unsigned cudal1_rt_cluster_rank(void* fiber);
unsigned cudal1_rt_cluster_size(void* fiber);
void* cudal1_rt_cluster_address(void* fiber, const void* shared, unsigned long bytes, unsigned rank);
// Barriers of transfers, each named by its place in shared memory, and the transfers of boxes of tensors: a load, which
// such a barrier counts, or without a barrier a store, of which groups are closed and waited for as with copies.
void cudal1_rt_transfer(void* fiber, void* barrier, int operation, int value);
void cudal1_rt_tile(void* fiber, const cudal1_tensor_map* map, void* shared, void* barrier, const int* place,
                    int dimensions);
void cudal1_rt_tile_commit(void* fiber);
void cudal1_rt_tile_wait(void* fiber, int groups);
// The block's copy of a `__shared__` variable: `site` and `instance` tell the declarations apart.
void* cudal1_rt_shared(void* fiber, int site, const char* instance, unsigned long bytes, unsigned long alignment);
}

#endif
