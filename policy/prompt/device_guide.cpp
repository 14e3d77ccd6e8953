#include "policy/prompt/device_guide.hpp"

#include <array>

#include <fmt/format.h>

namespace cudal1 {

expected<const device_guide*> guide_of(std::string_view target) {
  static const std::array guides{&cpu_guide(), &cuda_guide()};
  std::string known;
  for (const auto* guide : guides) {
    if (guide->target == target) return guide;
    known += (known.empty() ? "" : ", ") + guide->target;
  }
  return fail(errc::unsupported,
              "there is no guide for writers of programs for \"{}\" (there are {}); policy/prompt/ needs a file for it",
              target, known);
}

const std::vector<std::string>& common_dialect() {
  static const std::vector<std::string> lines{
      "C++20 without any library: `__global__`, `__device__`, `__forceinline__`, `__launch_bounds__`, `__restrict__`, "
      "`__constant__` with an initialiser, `constexpr`, `#define`, `#pragma unroll`, structs, lambdas, and templates "
      "of "
      "`__device__` functions. A kernel itself is no template and returns void; it is launched by its plain name.",
      "`threadIdx`, `blockIdx`, `blockDim`, `gridDim` (.x .y .z); `__shared__`, `__syncthreads()`, `__syncwarp()`, the "
      "shuffles `__shfl_sync`, `__shfl_up_sync`, `__shfl_down_sync`, `__shfl_xor_sync`, the votes `__ballot_sync`, "
      "`__any_sync`, `__all_sync`, `atomicAdd` and its relatives.",
      "`float2`, `float4`, `int4`, `uchar4` ... with `make_float4`; `__ldg`, `__ldcs`, `__stcs`; `min`, `max`, "
      "`fminf`, "
      "`fmaxf`, `fabsf`, `fmaf`, `sqrtf`, `rsqrtf`, `expf`, `exp2f`, `expm1f`, `logf`, `log1pf`, `powf`, `tanhf`, "
      "`erff`, "
      "`sinf`, `cosf`, `floorf`, `rintf` ..., the fast `__expf`, `__logf`, `__fdividef`, and double versions; "
      "`__float_as_int`, `__int_as_float`, `__popc`, `__clz`; `INFINITY`, `NAN`, `FLT_MAX`, `INT_MAX`.",
      "Elements by dtype: float32 `float`, float64 `double`, int64 `long long`, int32 `int`, int16 `short`, int8 "
      "`signed char`, uint8 `unsigned char`, bool `bool`. float16 and bfloat16 are `unsigned short` that "
      "`float_of_half`, `half_of_float`, `float_of_bfloat16`, `bfloat16_of_float` convert. The element type of a "
      "pointer is not checked against the dtype: take care.",
  };
  return lines;
}

const std::vector<prohibition>& common_prohibitions() {
  static const std::vector<prohibition> lines{
      {"`#include`, `extern \"C\"`, `namespace`, `std::`, `cuda::`, host code, launches with `<<<>>>`",
       "the source is device code alone; the steps of the head launch the kernels"},
      {"`printf`, `assert`, `malloc`, `new`, clocks, sleeping, random numbers",
       "a kernel only computes; memory comes from `alloc` steps or local arrays"},
      {"`static` or global variables that are written, and anything that remembers a call",
       "a call must do its whole work; writable state is refused by the compiler"},
      {"writing an input or a weight, or outside of a tensor", "inputs are read-only, and guards surround each tensor"},
      {"names that contain `cudal1`, or begin with two underscores in a #define", "they are reserved"},
  };
  return lines;
}

}  // namespace cudal1
