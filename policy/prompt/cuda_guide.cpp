// For GPUs, whose kernels NVRTC compiles (sandbox/cuda).
#include "policy/prompt/device_guide.hpp"

namespace cudal1 {

// Each entry is a sentence of several literals.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
const device_guide& cuda_guide() {
  static const device_guide guide{
      .target = "cuda",
      .about =
          "A program runs on an NVIDIA GPU: NVRTC compiles the kernels for exactly this architecture, an interpreter "
          "without Python launches them in the order of the steps on one stream, and `aten` steps call LibTorch "
          "(cuBLAS, "
          "cuDNN). The call time is the host's clock around one call and its synchronisation, with the L2 cache "
          "flushed "
          "before: launches, gaps between them and cold memory count.",
      .performance =
          {
              "Few launches and one pass over memory: fuse everything pointwise, read each input once with coalesced "
              "16-byte "
              "accesses (`const float4*` parameters: every tensor starts at a multiple of 16 bytes), write each output "
              "once, "
              "keep rows in registers or shared memory between the passes of a reduction.",
              "`\"execution\": {\"graph\": true, \"lanes\": 1}` replays all steps as one CUDA graph: for more than one "
              "step "
              "it removes the host's time between launches, and it hardly ever hurts. Independent steps may overlap "
              "with "
              "\"lanes\": 2.",
              "Pointwise: 256 threads per block, 4 to 16 elements per thread in vectors, at least a few blocks for "
              "each "
              "multiprocessor; `__restrict__` on all pointers; streaming hints (`__ldcs`, `__stcs`) for data used "
              "once.",
              "Row reductions, norms, softmax: one warp per short row, one block per long row; keep the row in "
              "registers "
              "(`float4 v[4]`), reduce with `__shfl_xor_sync(0xffffffffu, ...)` and one `__syncthreads()` per "
              "reduction. "
              "Few long rows need several blocks for each row, with a second small kernel.",
              "Matrix products and convolutions: keep LibTorch's operator and fuse what is around it, in place. "
              "float32 "
              "products run without TF32 (\"precision\": \"float32\"); one TF32 product is too inexact for the gates, "
              "three "
              "of split operands (3xTF32: a = hi + lo, hi*hi + hi*lo + lo*hi) pass, as do three of halves that are "
              "scaled by powers of two, twice as fast. Structure that saves work "
              "(diagonal, "
              "triangular, a sum behind a product) is worth a kernel by hand.",
              "Registers: about 64 per thread at 1024 threads of a multiprocessor, 255 at most; spills are shown with "
              "each "
              "earlier variant, avoid them. `__launch_bounds__(threads)` lets the compiler use all it may.",
              "Work on weights alone belongs in `setup` steps, which are not timed.",
          },
      .dialect =
          {
              "Dynamic shared memory: `extern __shared__ float buffer[];` with \"shared_bytes\" in the launch, up to "
              "227 KiB; "
              "static `__shared__` up to 48 KiB.",
              "Tensor cores without headers, by a whole warp: `mma_m16n8k8_tf32(d, a, b)`, `mma_m16n8k16_half(d, a, "
              "b)`, "
              "`mma_m16n8k16_bfloat16(d, a, b)`: d += a b with `float d[4]`, `unsigned a[4], b[2]`; "
              "`tf32_of_float(v)` rounds an operand's bits (without it the low 13 bits are cut off).",
              "Fragments of lane i, r = i / 4, c = i % 4: d is (r, 2c), (r, 2c + 1), (r + 8, 2c), (r + 8, 2c + 1). "
              "tf32: "
              "a is (r, c), (r + 8, c), (r, c + 4), (r + 8, c + 4), b is (k = c, n = r), (c + 4, r). half and "
              "bfloat16, "
              "in pairs along k: a is (r, 2c), (r + 8, 2c), (r, 2c + 8), (r + 8, 2c + 8), b is (2c, r), (2c + 8, r).",
              "`load_matrix_x4(a, row)`, `load_matrix_x2(b, row)` (ldmatrix) read such fragments from shared memory: "
              "lane i "
              "passes the address of row i % 8, of 16 bytes, of matrix i / 8. A tf32 tile `float t[16][8]` as a: "
              "`&t[i % "
              "16][i / 16 * 4]`; b kept as `float t[8 of n][8 of k]`: `&t[i % 8][i / 8 % 2 * 4]`; `_transposed` "
              "variants "
              "for 16-bit operands that lie the other way. Pad or swizzle rows against bank conflicts.",
              "`copy_async<16>(shared, global, real)` (4, 8 or 16 bytes, zeros where `!real`), `copy_async_commit()`, "
              "`copy_async_wait<N>()` (until at most N groups of this thread are under way; then `__syncthreads()`): "
              "for "
              "pipelines of 3 or 4 stages in shared memory.",
              "Products of 4 warps from shared memory (wgmma; only compute capability 9.0): "
              "`warpgroup_mma_m64nNk16_bfloat16(d, a, b, add)` and `_half`, N = 64, 128, 192, 256, with `float d[N / "
              "8][4]`: d "
              "= a b^T (+ d where `add`) of 64 and N rows of 16 elements, 128 bytes apart; tiles begin at a multiple "
              "of 1024, 16-byte "
              "piece p of row r is in place p ^ (r % 8), `a` and `b` point to row 0, 0 to 96 bytes in. Lane i of warp "
              "w "
              "has row 16 w + i / 4 (and 8 below), columns 8 n + 2 (i % 4). `_transposed` variants take 16 rows of N "
              "elements "
              "of a row-major b: strips of 64 columns 8192 bytes apart, `b` at a multiple of 1024. "
              "`fence_shared_async()` between "
              "copy_async_wait and the barrier; then `warpgroup_fence()`, products, `warpgroup_commit()`, "
              "`warpgroup_wait<N>(d)` before sums are read.",
              "Clusters of up to 8 blocks (compute capability 9.0): `__global__ void __cluster_dims__(x, y, z) "
              "k(...)`, "
              "`cluster_rank()`, `cluster_size()`, `cluster_sync()`, `load_cluster(shared, rank)` and "
              "`store_cluster(shared, rank, v)` of a float in another block's shared memory; end with "
              "`cluster_sync()`.",
              "Tensor maps (TMA, compute capability 9.0): `{\"in\": \"a\", \"map\": {\"box\": [64, 64], \"swizzle\": "
              "128}}` "
              "passes `const __grid_constant__ tensor_map a`. One thread: `transfer_init(&bar, 1)` of an `unsigned "
              "long "
              "long` in shared memory, a `__syncthreads()` of all, `transfer_expect(&bar, bytes)`, `load_tile(shared, "
              "a, "
              "&bar, row, column)`; all: `transfer_wait(&bar, parity)`, parity 0, 1, 0... for each use. Boxes: up to "
              "256 a "
              "dimension, rows of 16 bytes or of the swizzle (then as warpgroups read them), zeros outside. Back: "
              "`fence_shared_async()`, `__syncthreads()`, one thread `store_tile(y, shared, row, column)`, "
              "`store_tile_commit()`, `store_tile_wait<0>()`.",
              "A launch with \"cooperative\": true runs all its blocks at once (no more than fit the GPU): "
              "`grid_sync()` "
              "is a barrier of them. With \"programmatic\": true it may begin before the kernel ahead "
              "has "
              "ended, which calls `let_next_kernel_begin()`; it calls `wait_for_previous_kernel()` before it touches "
              "memory that others write.",
              "Half arithmetic or CUB need NVIDIA's headers: `\"headers\": [\"cuda\"]` in the head "
              "allows "
              "`#include <cuda_fp16.h>`, `<mma.h>`; further sets are \"libcu++\", \"cub\", \"cutlass\". Such a program "
              "compiles in seconds instead of 50 ms: only where it pays.",
              "Inline PTX (`asm`) is allowed, as far as its instructions are.",
          },
      .refused =
          {
              {"device variables that are written, `%clock`, `%smid` and other special registers, nanosleep",
               "they would carry state or tell where and when a call runs"},
              {"L2 cache policies (evict_last, createpolicy, discard), textures, surfaces, launches from kernels",
               "they outlive the call or leave the timed stream"},
          },
  };
  return guide;
}
// NOLINTEND(bugprone-suspicious-missing-comma)

}  // namespace cudal1
