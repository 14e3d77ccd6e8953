// One dialect on every device: what compiles for `cpu` compiles here.
#include "sandbox/program/dialect.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cpu/compiler/host_compiler.hpp"
#include "sandbox/cuda/compiler/prologue.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

host_compiler& host() {
  static const auto made = [] {
    auto created = host_compiler::create({});
    if (!created) throw std::runtime_error(created.error().message);
    return std::move(*created);
  }();
  return *made;
}

class architectures : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(real, architectures, testing::Values("sm_80", "sm_90", "sm_90a"));

// Kernels of each kind that generated programs have.
const std::vector<std::string>& kinds() {
  static const std::vector<std::string> all{
      R"(__global__ void pointwise(const float* __restrict__ x, float* __restrict__ y, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = fmaxf(x[i], 0.0f) * __expf(-x[i]) + INFINITY * 0.0f;
      })",
      R"(#define LANES 4
      __global__ void __launch_bounds__(256, 2) vectorised(const float4* x, float4* y, int n) {
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= n) return;
        float4 v = x[i];
        v.x *= LANES; v.y = tanhf(v.y); v.z = rsqrtf(v.z); v.w = erff(v.w);
        y[i] = make_float4(v.x, v.y, v.z, v.w);
      })",
      R"(__device__ float warp_sum(float v) {
        for (int offset = 16; offset > 0; offset /= 2) v += __shfl_down_sync(0xffffffffu, v, offset);
        return v;
      }
      __global__ void rows(const float* x, float* y, int columns) {
        __shared__ float partial[32];
        float sum = 0.0f;
        for (int c = threadIdx.x; c < columns; c += blockDim.x) sum += x[(long long)blockIdx.x * columns + c];
        sum = warp_sum(sum);
        if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x < 32) {
          sum = warp_sum(threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0.0f);
          if (threadIdx.x == 0) y[blockIdx.x] = sum;
        }
      })",
      R"(template <int N> __device__ float power(float v) {
        float r = 1.0f;
      #pragma unroll
        for (int i = 0; i < N; ++i) r *= v;
        return r;
      }
      extern __shared__ float tile[];
      __global__ void tiled(const float* a, float* b, int n) {
        tile[threadIdx.x] = power<3>(a[threadIdx.x]);
        __syncthreads();
        b[threadIdx.x] = tile[n - 1 - threadIdx.x];
      })",
      R"(const float table[4] = {1.0f, 2.0f, 4.0f, 8.0f};
      constexpr int shifts[3] = {1, 2, 3};
      __constant__ float weights[2] = {0.5f, 0.25f};
      __global__ void lookup(const int* i, float* y) {
        y[threadIdx.x] = table[i[threadIdx.x] & 3] * weights[i[threadIdx.x] & 1] + shifts[i[threadIdx.x] % 3];
      })",
      R"(__global__ void counters(int* a, unsigned* b, unsigned long long* c, long long* d, uint64_t* e, int64_t* f,
                                 size_t* g, float* h, double* i) {
        atomicAdd(a, 1); atomicMax(b, 2u); atomicCAS(c, 1ull, 2ull); atomicAdd(d, 3ll); atomicSub(d, 1ll);
        atomicMin(d, 4ll); atomicExch(e, 5ull); atomicXor(f, 6ll); atomicAdd(g, (size_t)1); atomicSub(g, (size_t)1);
        atomicMax(g, (size_t)7); atomicOr_block(d, 1ll); atomicAnd_system(f, 1ll); atomicSub(c, 1ull);
        atomicAdd(h, 1.0f); atomicAdd(i, 1.0); atomicInc(b, 9u); atomicCAS(d, 1ll, 2ll); atomicExch(h, 1.0f);
      })",
      R"(__global__ void halves(const uint4* x, uint4* y, unsigned short* z) {
        const uint4 v = x[threadIdx.x];
        const float a = float_of_half((unsigned short)v.x), b = float_of_bfloat16((unsigned short)(v.y >> 16));
        z[threadIdx.x] = half_of_float(a);
        z[threadIdx.x + blockDim.x] = bfloat16_of_float(b);
        y[threadIdx.x] = make_uint4(half_pair_of_floats(a, b), bfloat16_pair_of_floats(a, b), v.z, v.w);
      })"};
  return all;
}

TEST_P(architectures, compile_kernels_of_each_kind_that_the_cpu_compiles) {
  for (const auto& source : kinds()) {
    const auto on_gpu = compile(source, GetParam());
    EXPECT_TRUE(on_gpu) << source << "\n" << on_gpu.error().message;
    if (!on_gpu) continue;
    EXPECT_EQ(kernels_in(on_gpu->object).size(), 1u) << source;
    ASSERT_EQ(on_gpu->resources.size(), 1u);
    EXPECT_THAT(kernels_in(on_gpu->object), ElementsAre(on_gpu->resources[0].kernel)) << "a plain name";
    EXPECT_GT(on_gpu->resources[0].registers, 4) << source;
  }
}

TEST(dialect, of_kernels_of_each_kind_compiles_for_the_cpu) {
  for (const auto& source : kinds()) {
    const auto on_cpu = host().compile(program_of(source));
    EXPECT_TRUE(on_cpu) << source << "\n" << on_cpu.error().message;
  }
}

// Every name that sandbox/cpu/dialect offers, once, for both compilers.
std::string all_names() {
  std::string body;
  for (const char* name :
       {"expf",   "__expf", "exp2f",       "exp10f",    "expm1f",     "logf",        "log2f",    "log10f",     "log1pf",
        "fabsf",  "sqrtf",  "rsqrtf",      "floorf",    "ceilf",      "truncf",      "rintf",    "nearbyintf", "roundf",
        "tanhf",  "erff",   "erfcf",       "sinf",      "cosf",       "tanf",        "asinf",    "acosf",      "atanf",
        "sinhf",  "coshf",  "asinhf",      "acoshf",    "atanhf",     "cbrtf",       "exp",      "log",        "sqrt",
        "tanh",   "erf",    "erfc",        "floor",     "ceil",       "trunc",       "rint",     "round",      "rsqrt",
        "fabs",   "sin",    "cos",         "normcdff",  "__logf",     "__log2f",     "__log10f", "__exp10f",   "__sinf",
        "__cosf", "__tanf", "__saturatef", "__frcp_rn", "__fsqrt_rn", "__frsqrt_rn", "abs",      "exp2",       "exp10",
        "expm1",  "log1p",  "__tanhf"})
    body += std::string("  f += ") + name + "(f);\n";
  for (const char* name :
       {"atan2f",    "fmodf",  "remainderf", "hypotf",    "fdimf",     "nextafterf", "powf",      "fminf", "fmaxf",
        "copysignf", "__powf", "__fdividef", "__fadd_rn", "__fsub_rn", "__fmul_rn",  "__fdiv_rn", "min",   "max",
        "pow",       "fmin",   "fmax",       "atan2",     "fmod",      "copysign",   "fdividef"})
    body += std::string("  f += ") + name + "(f, 2.0f);\n  d += " + (std::string(name) == "pow" ? "pow(d, 2)" : "d") +
            ";\n";
  for (const char* name : {"exp", "log", "sqrt", "tanh", "erf", "floor", "rsqrt", "normcdf", "abs", "sin", "round"})
    body += std::string("  d += ") + name + "(d);\n";
  for (const char* name : {"__dadd_rn", "__dsub_rn", "__dmul_rn", "__ddiv_rn", "min", "max", "fmin", "fmax", "pow"})
    body += std::string("  d += ") + name + "(d, 2.0);\n";
  for (const char* name : {"__popc", "__clz", "__ffs", "__brev", "abs", "__float_as_int", "__float2int_rn",
                           "__float2int_rz", "__float2int_rd", "__float2uint_ru", "lrintf", "lroundf"})
    body += std::string("  i += (int)") + name + "(" +
            (std::string(name).find("float") != std::string::npos || name[0] == 'l' ? "f" : "i") + ");\n";
  return body + R"(
  i += __mulhi(i, 3) + (int)__umulhi(u, 3u) + __mul24(i, 3) + (int)__umul24(u, 3u) + (int)__sad(i, 3, u);
  i += (int)__usad(u, 3u, u) + (int)__funnelshift_l(u, 1u, 3u) + (int)__funnelshift_r(u, 1u, 3u);
  i += (int)__byte_perm(u, 3u, 0x3210u) + __popcll(w) + __clzll((long long)w) + __ffsll((long long)w);
  i += (int)umin(u, 3u) + (int)umax(u, 3u) + (int)labs((long)i) + (int)llabs((long long)i) + __hadd(i, 3);
  i += __rhadd(i, 3) + isnan(f) + isinf(f) + isfinite(d) + signbit(f) + (int)llrintf(f) + (int)llroundf(f);
  w += __brevll(w) + __umul64hi(w, 3ull) + (uint64_t)__mul64hi((long long)w, 3ll) + (uint64_t)__double2ll_rn(d);
  f += fmaf(f, f, f) + fma(f, f, f) + __fmaf_rn(f, f, f) + __int_as_float(i) + __uint_as_float(u) + __int2float_rn(i);
  f += __uint2float_rn(u) + __ll2float_rn((long long)w) + __ull2float_rn(w) + __double2float_rn(d) + ldexpf(f, 3);
  d += fma(d, d, d) + __fma_rn(d, d, d) + __longlong_as_double((long long)w) + ldexp(d, 3) + __int2double_rn(i);
  d += min(f, d) + max(d, f) + __uint2double_rn(u) + __ll2double_rn((long long)w) + min((long long)w, 3ll);
  float s, c; double sd, cd;
  sincosf(f, &s, &c); __sincosf(f, &s, &c); sincos(d, &sd, &cd);
  f += s + c + FLT_MAX + FLT_MIN + FLT_EPSILON + NAN + CUDART_INF_F + CUDART_NAN_F + CUDART_PI_F;
  d += sd + cd + DBL_MAX + DBL_MIN + DBL_EPSILON + M_PI + M_SQRT1_2 + M_SQRT2 + M_2_SQRTPI;
  i += INT_MAX + INT_MIN + (int)UINT_MAX + (int)(LLONG_MAX + LLONG_MIN) + warpSize;
  const float4 v = make_float4(f, f, f, f); const int2 p = make_int2(i, i); const uchar4 q = make_uchar4(1, 2, 3, 4);
  const double2 r = make_double2(d, d); const ulonglong2 t = make_ulonglong2(w, w); const dim3 e(1, 2);
  f += v.w + (float)p.y + (float)q.z + (float)r.y + (float)t.x + (float)e.y;
  f += __ldg(y) + __ldca(y) + __ldcg(y) + __ldcs(y) + __ldlu(y) + __ldcv(y);
  __stwb(y, f); __stcg(y + 1, f); __stcs(y + 2, f); __stwt(y + 3, f);
  int8_t a8 = 1; uint8_t b8 = 2; int16_t a16 = 3; uint16_t b16 = 4; int32_t a32 = 5; int64_t a64 = 6; ptrdiff_t dp = 7;
  intptr_t ip = 8; uintptr_t up = 9; uchar uc = 1; ushort us = 2; ulong ul = 3; size_t z = sizeof(a64);
  i += a8 + b8 + a16 + b16 + a32 + (int)a64 + (int)dp + (int)ip + (int)up + uc + us + (int)ul + (int)z;
  __int128 wide = i; i += (int)(wide >> 64);
  __threadfence(); __threadfence_block(); __threadfence_system();
  if (i == 12345) __trap();
)";
}

const char* const meeting = R"(
  __syncthreads(); __syncwarp();
  i += __syncthreads_count(i) + __syncthreads_and(i) + __syncthreads_or(i);
  u += __ballot_sync(0xffffffffu, i) + __any_sync(0xffffffffu, i) + __all_sync(0xffffffffu, i) + __activemask();
  f += __shfl_sync(0xffffffffu, f, 3) + __shfl_up_sync(0xffffffffu, f, 1) + __shfl_xor_sync(0xffffffffu, f, 1, 16);
  w += __shfl_sync(0xffffffffu, w, 3); d += __shfl_down_sync(0xffffffffu, d, 1);
  u += __match_any_sync(0xffffffffu, i) + __reduce_add_sync(0xffffffffu, u) + __reduce_min_sync(0xffffffffu, u);
  i += __reduce_max_sync(0xffffffffu, i) + __reduce_add_sync(0xffffffffu, i);
  u += __reduce_and_sync(0xffffffffu, u) + __reduce_or_sync(0xffffffffu, u) + __reduce_xor_sync(0xffffffffu, u);
)";

std::string kernel_of(const std::string& body) {
  return "__global__ void k(float* y, int i, unsigned u, uint64_t w, double d) {\n  float f = y[threadIdx.x];\n" +
         body + "  y[threadIdx.x] = f + (float)i + (float)u + (float)w + (float)d;\n}\n";
}

TEST(dialect, has_every_name_of_the_cpu_s_device_header) {
  const auto source = kernel_of(all_names());
  const auto on_cpu = host().compile(program_of(source));
  EXPECT_TRUE(on_cpu) << on_cpu.error().message;
  const auto on_gpu = compile(source);
  EXPECT_TRUE(on_gpu) << on_gpu.error().message;
}

TEST(dialect, has_every_cooperative_operation_of_the_cpu) {
  const auto source = kernel_of(meeting);
  const auto on_cpu = host().compile(program_of(source));
  EXPECT_TRUE(on_cpu) << on_cpu.error().message;
  const auto on_gpu = compile(source);
  EXPECT_TRUE(on_gpu) << on_gpu.error().message;
}

TEST(dialect, gives_kernels_plain_names_however_they_are_declared) {
  const auto made = compile(R"(
    #define KERNEL_BODY y[0] = 1.0f;
    #define DEFINE_IT __global__ void from_macro(float* y) { KERNEL_BODY }
    extern "C" __global__ void with_linkage(float* y) { y[0] = 1.0f; }
    static __global__ void hidden(float* y) { y[0] = 1.0f; }
    __global__ void declared(float* y);
    __global__ void declared(float* y) { y[0] = 1.0f; }
    __launch_bounds__(128) __global__ void bounds_first(float* y) { y[0] = 1.0f; }
    __global__ __launch_bounds__(64) void bounds_in_between(float* y) { y[0] = 1.0f; }
    namespace inner { __global__ void in_namespace(float* y) { y[0] = 1.0f; } }
    extern "C" { __global__ void in_block(float* y) { y[0] = 1.0f; } }
    /* __global__ */ const char* const text = "__global__ void in_text() {";
    DEFINE_IT
    [[maybe_unused]] static __global__ void attributed(float* y) { y[0] = 1.0f; }
    __global__ __cluster_dims__(2, 1, 1) void in_cluster(float* y) { y[0] = 1.0f; }
    template <class T> __global__ void a_template(T* y) { y[0] = T(1); }
  )");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(kernels_in(made->object),
              ElementsAre("attributed", "bounds_first", "bounds_in_between", "declared", "from_macro", "hidden",
                          "in_block", "in_cluster", "in_namespace", "with_linkage"));
}

TEST(dialect, names_lines_of_the_program_in_errors) {
  const auto e = compile_error("// a line\n#define TWICE(a) \\\n  ((a) + (a))\n" + in_kernel("y[0] = TWICE(m);"));
  EXPECT_EQ(e.code, errc::compile_failed);
  EXPECT_THAT(e.message, HasSubstr("program.cu(4): error: identifier \"m\" is undefined"));
  EXPECT_EQ(compile_error("__global__ void k(float* y) { y[0] = (1; }").code, errc::compile_failed);
}

TEST(dialect, refuses_launches_of_missing_kernels) {
  auto p = program_of(in_kernel("y[0] = 1.0f;") + "template <class T> __global__ void t(T* y) { y[0] = T(1); }\n");
  launch_step launch;
  launch.kernel = "k";
  p.text.steps.emplace_back(launch);
  EXPECT_TRUE(compiler_for().compile(p));
  launch.kernel = "t";
  p.text.steps.emplace_back(launch);
  const auto made = compiler_for().compile(p);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::compile_failed);
  EXPECT_THAT(made.error().message, HasSubstr("no kernel \"t\""));
}

TEST(dialect, examples_compile) {
  for (const char* name : {"row_scale.cu1", "softmax_rows.cu1", "wrong_row_scale.cu1"}) {
    std::ifstream file(std::string(CUDAL1_EXAMPLES "/") + name);
    const auto p = check_program_text(std::string(std::istreambuf_iterator<char>(file), {}));
    ASSERT_TRUE(p) << name << ": " << p.error().message;
    const auto made = compiler_for("sm_90").compile(*p);
    EXPECT_TRUE(made) << name << ": " << made.error().message;
  }
}

// The table of the dialect's functions is what all else follows from; this is that it has what the texts define, and
// that people can read of it.
TEST(dialect, describes_each_function_that_it_has) {
  std::ifstream file(CUDAL1_SANDBOX_README);
  const std::string readme(std::istreambuf_iterator<char>(file), {});
  ASSERT_FALSE(readme.empty());
  for (const auto& part : dialect_parts()) {
    const std::string text(prologue_part(part.name));
    ASSERT_FALSE(text.empty()) << part.name;
    auto functions = part.of_warps;
    functions.insert(functions.end(), part.of_threads.begin(), part.of_threads.end());
    ASSERT_FALSE(functions.empty()) << part.name;
    for (const auto function : functions) {
      const std::string name(function);
      // Those of many sizes or forms are made by macros.
      const bool made = name.starts_with("warpgroup_mma_m64n") || name.ends_with("_transposed");
      EXPECT_TRUE(made || text.find(name) != std::string::npos) << name << " is not in prologue_" << part.name;
      EXPECT_TRUE(made || readme.find("`" + name) != std::string::npos ||
                  readme.find(" " + name + "(") != std::string::npos)
          << name << " is not in sandbox/README.md";
      EXPECT_TRUE(needs_part("void f() { " + name + "(x); }", part)) << name;
    }
  }
}

TEST(dialect, has_each_function_of_its_texts_in_the_table) {
  // Not members, whose declarations are indented.
  const std::regex defined(R"(\nstatic __device__ __forceinline__ [a-z ]+ ([a-z]\w+)\()");
  for (const auto& part : dialect_parts()) {
    const std::string text(prologue_part(part.name));
    for (auto at = std::sregex_iterator(text.begin(), text.end(), defined); at != std::sregex_iterator(); ++at) {
      const std::string name = (*at)[1];
      if (name.starts_with("cudal1_") || name == "sort_bitonic_ranks") continue;  // not for others
      EXPECT_TRUE(std::ranges::count(part.of_warps, name) + std::ranges::count(part.of_threads, name) > 0)
          << name << " of prologue_" << part.name;
    }
  }
}

TEST(dialect, needs_no_compiler_without_kernels) {
  const auto made = compile("  \n");
  ASSERT_TRUE(made);
  EXPECT_EQ(made->object, "");
}

}  // namespace
}  // namespace cudal1::test
