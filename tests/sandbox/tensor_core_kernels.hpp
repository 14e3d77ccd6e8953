// Kernels that call each function of the dialect for tensor cores and asynchronous copies, for the tests of both
// devices. All run in one block; `products` and `loads` in one warp, `pipeline` in four.
#pragma once

namespace cudal1::test {

inline constexpr const char* tensor_core_kernels = R"(
__global__ void round_to_tf32(const float* x, unsigned* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tf32_of_float(x[i]);
}

__global__ void round_to_even_tf32(const float* x, unsigned* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = tf32_even_of_float(x[i]);
}

// d = c + a b, of raw operands: `a` 16 x K by rows, `b` K x 8 by rows, c and d 16 x 8.
__device__ void read_sum(float (&d)[4], const float* c) {
  const int r = threadIdx.x / 4, q = threadIdx.x % 4;
  for (int e = 0; e < 4; ++e) d[e] = c[(r + e / 2 * 8) * 8 + 2 * q + e % 2];
}
__device__ void write_sum(const float (&d)[4], float* y) {
  const int r = threadIdx.x / 4, q = threadIdx.x % 4;
  for (int e = 0; e < 4; ++e) y[(r + e / 2 * 8) * 8 + 2 * q + e % 2] = d[e];
}
__device__ unsigned pair(unsigned short low, unsigned short high) { return low | (unsigned)high << 16; }
__global__ void product_tf32(const unsigned* a, const unsigned* b, const float* c, float* y) {
  const int r = threadIdx.x / 4, q = threadIdx.x % 4;
  float d[4];
  read_sum(d, c);
  const unsigned fa[4] = {a[r * 8 + q], a[(r + 8) * 8 + q], a[r * 8 + q + 4], a[(r + 8) * 8 + q + 4]};
  const unsigned fb[2] = {b[q * 8 + r], b[(q + 4) * 8 + r]};
  mma_m16n8k8_tf32(d, fa, fb);
  write_sum(d, y);
}
__global__ void products_of_half_types(const unsigned short* a, const unsigned short* b, const float* c, float* y,
                                       float* z) {
  const int r = threadIdx.x / 4, q = threadIdx.x % 4;
  unsigned fa[4], fb[2];
  for (int e = 0; e < 4; ++e) {
    const unsigned short* p = a + (r + e % 2 * 8) * 16 + 2 * q + e / 2 * 8;
    fa[e] = pair(p[0], p[1]);
  }
  for (int e = 0; e < 2; ++e) fb[e] = pair(b[(2 * q + e * 8) * 8 + r], b[(2 * q + e * 8 + 1) * 8 + r]);
  float d[4];
  read_sum(d, c);
  mma_m16n8k16_half(d, fa, fb);
  write_sum(d, y);
  read_sum(d, c);
  mma_m16n8k16_bfloat16(d, fa, fb);
  write_sum(d, z);
}

// Four 8x8 matrices, one below the other; 12 words of each lane.
__global__ void loads(const unsigned short* x, unsigned* y) {
  __shared__ __align__(16) unsigned short rows[32 * 8];
  for (int i = threadIdx.x; i < 256; i += 32) rows[i] = x[i];
  __syncwarp();
  unsigned four[4], four_transposed[4], two[2], two_transposed[2];
  load_matrix_x4(four, rows + threadIdx.x * 8);
  load_matrix_x4_transposed(four_transposed, rows + threadIdx.x * 8);
  load_matrix_x2(two, rows + threadIdx.x % 16 * 8);
  load_matrix_x2_transposed(two_transposed, rows + threadIdx.x % 16 * 8);
  unsigned* z = y + threadIdx.x * 12;
  for (int i = 0; i < 4; ++i) z[i] = four[i];
  for (int i = 0; i < 4; ++i) z[4 + i] = four_transposed[i];
  for (int i = 0; i < 2; ++i) z[8 + i] = two[i];
  for (int i = 0; i < 2; ++i) z[10 + i] = two_transposed[i];
}

// Thread i copies words i, 2i and 2i + 1, and 4i to 4i + 3; those of the threads from `real` on are zeros, and nothing
// of `x` is read for them.
__global__ void copies(const unsigned* x, unsigned* y, int real) {
  __shared__ __align__(16) unsigned one[32], two[64], four[128];
  const int i = threadIdx.x;
  copy_async<4>(one + i, x + i, i < real);
  copy_async<8>(two + 2 * i, x + 2 * i, i < real);
  copy_async_commit();
  copy_async<16>(four + 4 * i, x + 4 * i, i < real);
  copy_async_commit();
  copy_async_wait<1>();
  __syncthreads();
  y[i] = one[31 - i];
  for (int j = 0; j < 2; ++j) y[32 + 2 * i + j] = two[63 - 2 * i - j];
  copy_async_wait<0>();
  __syncthreads();
  for (int j = 0; j < 4; ++j) y[96 + 4 * i + j] = four[127 - 4 * i - j];
}

// y = a b^T of 32 x 32 elements, K of them in each row of a and b: three stages of 8 columns are under way or in use.
// Each of four warps computes 16 x 16 elements.
template <bool ROUNDS>
__device__ unsigned operand(unsigned bits) {
  return ROUNDS ? tf32_of_float(__uint_as_float(bits)) : bits;
}
template <bool ROUNDS>
__device__ void multiply(const float* a, const float* b, float* y, int k) {
  __shared__ __align__(16) float tiles[3][2][32][8];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, top = warp / 2 * 16, left = warp % 2 * 16;
  const int row = threadIdx.x / 2 % 32, column = threadIdx.x % 2 * 4, operand_of = threadIdx.x / 64;
  const float* from = (operand_of == 0 ? a : b) + row * k + column;
  const auto fetch = [&](int tile) {
    copy_async<16>(&tiles[tile % 3][operand_of][row][column], from + tile * 8, tile * 8 < k);
    copy_async_commit();
  };
  float d[2][4] = {};
  fetch(0);
  fetch(1);
  for (int tile = 0; tile * 8 < k; ++tile) {
    copy_async_wait<1>();
    __syncthreads();
    fetch(tile + 2);  // over the tile that all have read before the barrier
    const auto& now = tiles[tile % 3];
    unsigned fa[4], fb[2];
    load_matrix_x4(fa, &now[0][top + lane % 16][lane / 16 * 4]);
    for (int e = 0; e < 4; ++e) fa[e] = operand<ROUNDS>(fa[e]);
    for (int n = 0; n < 2; ++n) {
      load_matrix_x2(fb, &now[1][left + n * 8 + lane % 8][lane / 8 % 2 * 4]);
      for (int e = 0; e < 2; ++e) fb[e] = operand<ROUNDS>(fb[e]);
      mma_m16n8k8_tf32(d[n], fa, fb);
    }
  }
  for (int n = 0; n < 2; ++n)
    for (int e = 0; e < 4; ++e)
      y[(top + lane / 4 + e / 2 * 8) * 32 + left + n * 8 + lane % 4 * 2 + e % 2] = d[n][e];
}
__global__ void pipeline(const float* a, const float* b, float* y, int k) { multiply<true>(a, b, y, k); }
__global__ void pipeline_unrounded(const float* a, const float* b, float* y, int k) { multiply<false>(a, b, y, k); }

// 16 x 8 x 16 of half types with both operands from shared memory, b by rows.
__global__ void product_from_shared(const unsigned short* a, const unsigned short* b, float* y) {
  __shared__ __align__(16) unsigned short sa[16][16], sb[16][8];
  const int lane = threadIdx.x;
  copy_async<16>(&sa[lane / 2][lane % 2 * 8], a + lane * 8, true);
  if (lane < 16) copy_async<16>(sb[lane], b + lane * 8, true);
  copy_async_commit();
  copy_async_wait<0>();
  __syncwarp();
  unsigned fa[4], fb[2];
  load_matrix_x4(fa, &sa[lane % 16][lane / 16 * 8]);
  load_matrix_x2_transposed(fb, sb[lane % 16]);
  float d[4] = {};
  mma_m16n8k16_half(d, fa, fb);
  write_sum(d, y);
}
)";

// y = c + a b^T, or c + a b of 64 rows of N elements of b, of 128 x N elements by two warpgroups: rows of 64 elements
// of a half type, of which those from 32 on are added in a second group while the first is under way; z is the same
// without c.
inline constexpr const char* warpgroup_kernels = R"(
template <int N, bool TRANSPOSED, class Multiply>
__device__ void multiply(const unsigned short* a, const unsigned short* b, const float* c, float* y, float* z,
                         Multiply product) {
  extern __shared__ __align__(1024) unsigned short tiles[];
  const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  unsigned short* const of_b = tiles + 128 * 64;
  for (int i = thread; i < (128 + N) * 8; i += 256) {
    const int row = i / 8, piece = i % 8 ^ row % 8, behind_a = i - 128 * 8;
    const int term = behind_a / (N / 8), place = behind_a % (N / 8);
    const int swizzled = TRANSPOSED && behind_a >= 0 ? 128 * 64 + place / 8 * 4096 + term * 64 + (place % 8 ^ term % 8) * 8
                                                 : row * 64 + piece * 8;
    copy_async<16>(tiles + swizzled, behind_a < 0 ? a + i * 8 : b + behind_a * 8, true);
  }
  copy_async_commit();
  copy_async_wait<0>();
  fence_shared_async();
  __syncthreads();
  for (int both = 0; both < 2; ++both) {
    float d[N / 8][4];
    for (int n = 0; n < N / 8; ++n)
      for (int e = 0; e < 4; ++e)
        d[n][e] = c[(warp * 16 + lane / 4 + e / 2 * 8) * N + n * 8 + lane % 4 * 2 + e % 2];
    warpgroup_fence();
    product(d, tiles + warp / 4 * 64 * 64, of_b, both == 0);
    product(d, tiles + warp / 4 * 64 * 64 + 16, of_b + 16 * (TRANSPOSED ? 64 : 1), true);
    warpgroup_commit();
    product(d, tiles + warp / 4 * 64 * 64 + 32, of_b + 32 * (TRANSPOSED ? 64 : 1), true);
    product(d, tiles + warp / 4 * 64 * 64 + 48, of_b + 48 * (TRANSPOSED ? 64 : 1), true);
    warpgroup_commit();
    warpgroup_wait<1>();
    warpgroup_wait<0>(d);
    for (int n = 0; n < N / 8; ++n)
      for (int e = 0; e < 4; ++e)
        (both == 0 ? y : z)[(warp * 16 + lane / 4 + e / 2 * 8) * N + n * 8 + lane % 4 * 2 + e % 2] = d[n][e];
  }
}
#define PRODUCT(N, TYPE, TRANSPOSED)                                                                       \
  __global__ void __launch_bounds__(256) product_##N##TYPE(                                                 \
      const unsigned short* a, const unsigned short* b, const float* c, float* y, float* z) {                  \
    multiply<N, TRANSPOSED>(a, b, c, y, z, [&](float (&d)[N / 8][4], const void* of_a, const void* of_b, bool add) { \
      warpgroup_mma_m64n##N##TYPE(d, of_a, of_b, add);                                                   \
    });                                                                                                        \
  }
#define PRODUCTS(TYPE, TRANSPOSED) \
  PRODUCT(64, TYPE, TRANSPOSED) PRODUCT(128, TYPE, TRANSPOSED) PRODUCT(192, TYPE, TRANSPOSED) PRODUCT(256, TYPE, TRANSPOSED)
PRODUCTS(k16_half, false) PRODUCTS(k16_bfloat16, false)
PRODUCTS(k16_half_transposed, true) PRODUCTS(k16_bfloat16_transposed, true)
)";

// y = c + a b^T of 128 x N elements by two warpgroups in TF32, from quads: of rows of 16 floats, of a (136 rows) those
// from the third on.
inline constexpr const char* quad_kernels = R"(
#define PRODUCT_OF_QUADS(N)                                                                                      \
  __global__ void __launch_bounds__(256) quads_##N(const float* a, const float* b, const float* c, float* y) {    \
    extern __shared__ __align__(16) float tiles[];                                                              \
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;                                      \
    float* const of_b = tiles + 136 * 16;                                                                        \
    for (int i = thread; i < (136 + N) * 16; i += 256) {                                                         \
      const int rows = i < 136 * 16 ? 136 : N, at = i < 136 * 16 ? i : i - 136 * 16;                             \
      const int row = at / 16, term = at % 16;                                                                   \
      (rows == 136 ? tiles : of_b)[(term / 4 * rows + row) * 4 + term % 4] = (rows == 136 ? a : b)[at];          \
    }                                                                                                            \
    fence_shared_async();                                                                                        \
    __syncthreads();                                                                                             \
    float d[N / 8][4];                                                                                           \
    for (int n = 0; n < N / 8; ++n)                                                                              \
      for (int e = 0; e < 4; ++e)                                                                                \
        d[n][e] = c[(warp * 16 + lane / 4 + e / 2 * 8) * N + n * 8 + lane % 4 * 2 + e % 2];                      \
    warpgroup_fence();                                                                                           \
    for (int q = 0; q < 4; q += 2)                                                                               \
      warpgroup_mma_m64n##N##k8_quads(d, tiles + (q * 136 + warp / 4 * 64 + 3) * 4, 136 * 16, 128,               \
                                      of_b + q * N * 4, N * 16);                                                 \
    warpgroup_commit();                                                                                          \
    warpgroup_wait<0>(d);                                                                                        \
    for (int n = 0; n < N / 8; ++n)                                                                              \
      for (int e = 0; e < 4; ++e)                                                                                \
        y[(warp * 16 + lane / 4 + e / 2 * 8) * N + n * 8 + lane % 4 * 2 + e % 2] = d[n][e];                      \
  }
PRODUCT_OF_QUADS(16) PRODUCT_OF_QUADS(32) PRODUCT_OF_QUADS(64)
)";

// Of a grid of 6 x 4 blocks of 64 threads in clusters of 3 x 2: the sum of the elements of its threads in all blocks of
// the cluster, and the next block's element, which that block has stored here; rank and size of the block.
inline constexpr const char* cluster_kernels = R"(
__global__ void __cluster_dims__(3, 2, 1) exchange(const float* x, float* y, unsigned* ranks) {
  __shared__ float mine[64], theirs[64];
  const int t = threadIdx.x, block = blockIdx.y * gridDim.x + blockIdx.x;
  const unsigned rank = cluster_rank(), size = cluster_size();
  mine[t] = x[block * 64 + t];
  cluster_sync();
  float sum = 0;
  for (unsigned r = 0; r < size; ++r) sum += load_cluster(mine + t, r);
  store_cluster(theirs + 63 - t, (rank + size - 1) % size, mine[t]);
  cluster_sync();
  y[block * 128 + t] = sum;
  y[block * 128 + 64 + t] = theirs[t];
  if (t == 0) ranks[block] = rank * 100 + size;
}
__global__ void alone(unsigned* ranks) {
  cluster_sync();
  ranks[blockIdx.x] = cluster_rank() * 100 + cluster_size();
}
)";

}  // namespace cudal1::test
