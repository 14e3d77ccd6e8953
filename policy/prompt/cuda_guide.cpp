// For GPUs, whose kernels NVRTC compiles (sandbox/cuda).
#include "policy/prompt/device_guide.hpp"
#include "sandbox/program/dialect.hpp"

namespace cudal1 {

// Each entry is a sentence of several literals.
// NOLINTBEGIN(bugprone-suspicious-missing-comma)
namespace {

std::vector<std::string> dialect_of_guide() {
  std::vector<std::string> out{
      "Dynamic shared memory: `extern __shared__ float buffer[];` with \"shared_bytes\" in the launch, up to 227 "
      "KiB; static `__shared__` up to 48 KiB."};
  for (const auto& part : dialect_parts())
    out.insert(out.end(), part.guide.begin(), part.guide.end());
  for (const char* sentence :
       {"Half arithmetic or CUB need NVIDIA's headers: `\"headers\": [\"cuda\"]` in the head allows `#include "
        "<cuda_fp16.h>`, `<mma.h>`; further sets are \"libcu++\", \"cub\", \"cutlass\". Such a program compiles in "
        "seconds instead of 50 ms: only where it pays.",
        "Inline PTX (`asm`) is allowed, as far as its instructions are."})
    out.emplace_back(sentence);
  return out;
}

}  // namespace

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
      .dialect = dialect_of_guide(),
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
