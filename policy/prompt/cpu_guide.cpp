// For the device `cpu`, which compiles kernels with the host's compiler (sandbox/cpu).
#include "policy/prompt/device_guide.hpp"

namespace cudal1 {

const device_guide& cpu_guide() {
  static const device_guide guide{
      .target = "cpu",
      .about =
          "The device `cpu` compiles the same CUDA C++ with g++ -O3 for this processor (AVX2 or AVX-512; FMA "
          "contraction, "
          "no -ffast-math). The blocks of a launch run one after another on one core. A kernel without barriers, "
          "shuffles "
          "and `__shared__` is a *loop kernel*: the threads of a block along x become one `for` loop over threadIdx.x, "
          "which the compiler vectorises across threads if the body is branch-free with stride-1 accesses. `aten` "
          "steps "
          "run LibTorch's CPU kernels on the same core. Caches are flushed before each timed call, so inputs and "
          "weights "
          "come from memory.",
      .performance =
          {
              "Memory traffic and the number of passes decide: fuse everything pointwise, read each input once, write "
              "each "
              "output once, keep intermediate values in registers or in a small local array, not in an `alloc`.",
              "Pointwise: one element per thread, `const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) "
              "{...}` "
              "in exactly this form (such a guard is hoisted out of the loop), block [1024, 1, 1] or [256, 1, 1]. No "
              "grid-stride loops and no float4: they prevent the vectorisation. Put a channel or row index into "
              "blockIdx.y "
              "or blockIdx.z, so that per-channel values are scalars of the loop and no division by a size is needed.",
              "Select with `?:` instead of branches, and use `&` and `|` instead of `&&` and `||` in conditions of the "
              "hot "
              "loop. `expf`, `__expf` (cheaper; the same limits and NaN, no denormal results), `exp2f`, `logf`, "
              "`log1pf`, `expm1f`, `tanhf`, `erff`, `sqrtf` are "
              "branch-free and vectorise (powf too, slower); sinf, cosf, atanf, cbrtf and the double functions are "
              "scalar "
              "library calls: avoid them in hot loops. tanh(u) = 1 - 2 / (1 + __expf(2 * u)), sigmoid(v) = 1 / (1 + "
              "__expf(-v)).",
              "Reductions, norms, softmax along contiguous rows: one thread per row, e.g. block [16, 1, 1] and grid "
              "[rows / "
              "16, 1, 1] (guard or choose a divisor), and inside it loops over the columns. A float sum keeps its "
              "order "
              "without -ffast-math, so write 16 or 32 independent partial results: `float part[32]; for (c = 0; c < C; "
              "c "
              "+= 32) for (l = 0; l < 32; ++l) part[l] += in[c + l];`, summed as a tree at the end; handle a remainder "
              "of "
              "C in a separate loop. A row that fits the L1 or L2 cache may be read twice; up to some thousand values "
              "may "
              "stay in a local array (at most 48 KiB of local variables in a function). Make sizes compile-time "
              "constants "
              "(#define), since all shapes are known, and mark pointers `__restrict__`, so that the inner loops "
              "vectorise without checks for overlap.",
              "Reductions along a strided dimension: let neighbouring threads (threadIdx.x) own neighbouring columns, "
              "each "
              "looping over the rows, so that the loop over threads vectorises; or one thread per block with a row of "
              "partial results in a local array.",
              "Matrix products, convolutions and attention of ordinary sizes: keep LibTorch's operator as an `aten` "
              "step "
              "and fuse everything around it into one kernel that updates its result in place (`inout`). A product by "
              "hand "
              "wins only where one dimension is small (32 or less) or the structure saves work (diagonal, triangular, "
              "a "
              "sum behind a product): then one thread computes a tile such as 4 rows x 16 columns in `float "
              "sum[4][16]`.",
              "Barriers, shuffles and `__shared__` are correct but very slow here (each thread becomes a fiber; 3 us "
              "per "
              "barrier of 256 threads): do not use them. Atomics are slow, too.",
              "Work on weights alone (sums, transposes, folded scales) belongs in `setup` steps, which are not timed.",
              "Views cost nothing; each other step costs 1 to 3 us besides its work. `execution.graph` has no effect, "
              "`lanes` do not help.",
              "Use `int` for indices that fit 31 bits, computed from `blockIdx.x * blockDim.x + threadIdx.x`; cast the "
              "row "
              "offset to `long long` only where a tensor has 2^31 elements or more.",
          },
      .dialect =
          {
              "Functions that use threadIdx, barriers or shuffles are free functions (no members of structs).",
              "Dynamic shared memory: `extern __shared__ float buffer[];` with \"shared_bytes\" in the launch. Static "
              "`__shared__` at most 48 KiB, without initialisers.",
              "The functions for a GPU's tensor cores (`mma_m16n8k8_tf32`, `load_matrix_x4`, `copy_async` ...) give "
              "the same results here, very slowly: they are for tests of programs for GPUs.",
          },
      .refused =
          {
              {"inline assembly, `__attribute__`, x86 intrinsics (`_mm256_...`), `__builtin_...` but __builtin_expect",
               "the object code is checked; plain loops vectorise"},
              {"NVIDIA's headers, `__half`, `half2`, wmma, cooperative groups, textures, the CUDA runtime",
               "this device does not have them"},
              {"exceptions, virtual functions, function pointers, thread_local", "kernels are plain code"},
          },
  };
  return guide;
}

}  // namespace cudal1
