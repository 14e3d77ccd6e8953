// What a kernel may not do on a GPU, with the rule and the offending text in the error; and what it may do.
#include "sandbox/cuda/compiler/ptx_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

struct refusal {
  std::string source, wanted;
};

void expect_refused(const std::vector<refusal>& cases) {
  for (const auto& c : cases) {
    const auto e = compile_error(c.source);
    EXPECT_EQ(e.code, errc::refused) << c.source << "\n" << e.message;
    EXPECT_THAT(e.message, HasSubstr(c.wanted)) << c.source;
  }
}

std::string in_asm(const std::string& text) {
  return in_kernel("asm volatile(\"" + text + "\"); y[0] = 1.0f;");
}

TEST(rules, refuse_clocks_and_the_location_on_the_gpu) {
  expect_refused({
      {in_kernel("y[0] = (float)clock64();"), "%clock64"},
      {in_kernel("y[0] = (float)clock();"), "%clock"},
      {in_kernel("unsigned v; asm volatile(\"mov.u32 %0, %%clock_hi;\" : \"=r\"(v)); y[0] = v;"), "%clock_hi"},
      {in_kernel("unsigned long long v; asm volatile(\"mov.u64 %0, %%globaltimer;\" : \"=l\"(v)); y[0] = v;"),
       "%globaltimer"},
      {in_kernel("unsigned v; asm volatile(\"mov.u32 %0, %%smid;\" : \"=r\"(v)); y[0] = v;"), "%smid"},
      {in_kernel("unsigned v; asm(\"mov.u32 %0, %%nsmid;\" : \"=r\"(v)); y[0] = v;"), "%nsmid"},
      {in_kernel("unsigned long long v; asm(\"mov.u64 %0, %%gridid;\" : \"=l\"(v)); y[0] = v;"), "%gridid"},
      {in_kernel("unsigned v; asm volatile(\"mov.u32 %0, %%pm0;\" : \"=r\"(v)); y[0] = v;"), "%pm0"},
      {in_kernel("unsigned v; asm volatile(\"mov.u32 %0, %%warpid;\" : \"=r\"(v)); y[0] = v;"), "%warpid"},
      {in_kernel("unsigned v; asm volatile(\"mov.u32 %0, %%envreg3;\" : \"=r\"(v)); y[0] = v;"), "%envreg3"},
  });
}

TEST(rules, refuse_sleeping_breakpoints_and_what_outlives_a_kernel) {
  expect_refused({
      {in_kernel("__nanosleep(100); y[0] = 1.0f;"), "nanosleep"},
      {in_asm("brkpt;"), "brkpt"},
      {in_asm("pmevent 1;"), "pmevent"},
      {in_kernel("unsigned long long p; asm volatile(\"createpolicy.fractional.L2::evict_last.b64 %0, 1.0;\" : "
                 "\"=l\"(p)); y[0] = p;"),
       "createpolicy"},
      {in_kernel("asm volatile(\"prefetch.global.L2::evict_last [%0];\" :: \"l\"(y)); y[0] = 1.0f;"), "L2"},
      {in_kernel("asm volatile(\"applypriority.global.L2::evict_normal [%0], 128;\" :: \"l\"(y)); y[0] = 1.0f;"),
       "applypriority"},
      {in_kernel("asm volatile(\"discard.global.L2 [%0], 128;\" :: \"l\"(y)); y[0] = 1.0f;"), "discard"},
      {in_kernel("float v; asm volatile(\"ld.global.L2::cache_hint.f32 %0, [%1], %2;\" : \"=f\"(v) : \"l\"(y), "
                 "\"l\"((unsigned long long)n)); y[1] = v;"),
       "unknown value"},
      {in_kernel("float v; asm volatile(\"ld.global.L2::cache_hint.f32 %0, [%1], %2;\" : \"=f\"(v) : \"l\"(y), "
                 "\"l\"(0x14F0000000000000ull)); y[1] = v;"),
       "unknown value"},
  });
}

TEST(rules, refuse_the_device_runtime) {
  expect_refused({
      {in_kernel("int* p = (int*)malloc(n); p[0] = n; y[0] = p[n]; free(p);"), "device heap"},
      {in_kernel("int* p = new int[n]; p[0] = n; y[0] = p[n]; delete[] p;"), "device heap"},
      {in_kernel("printf(\"%d\", n); y[0] = 1.0f;"), "device-side printf"},
  });
  for (const std::string function : {"int cudaGetDevice(int*)", "void elsewhere(int*)"}) {
    const auto name = function.substr(function.find(' ') + 1, function.find('(') - function.find(' ') - 1);
    const auto e =
        compile_error("extern \"C\" __device__ " + function + ";\n" + in_kernel("int d; " + name + "(&d); y[0] = d;"));
    EXPECT_EQ(e.code, errc::compile_failed) << e.message;
    EXPECT_THAT(e.message, HasSubstr("Unresolved extern function '" + name + "'"));
  }
  // <<<>>> needs a library that is missing.
  const auto launch = compile_error("__global__ void c(float* y) { y[0] = 1.0f; }\n" + in_kernel("c<<<1, 1>>>(y);"));
  EXPECT_TRUE(launch.code == errc::refused || launch.code == errc::compile_failed) << launch.message;
}

TEST(rules, refuse_state_that_outlives_a_call) {
  expect_refused({
      {"__device__ int calls;\n" + in_kernel("if (atomicAdd(&calls, 1) > 5) y[0] = 1.0f;"), "calls"},
      {"int counter = 3;\n" + in_kernel("counter += n; y[0] = counter;"), "may only be read"},
      {"__device__ float memory[64];\n" + in_kernel("memory[n & 63] = y[0]; y[1] = memory[(n + 1) & 63];"), "memory"},
      {in_kernel("static int calls; y[0] = calls++;"), "may only be read"},
      {"__device__ __managed__ int m;\n" + in_kernel("y[0] = m;"), "managed"},
      // An address that is passed on indirectly.
      {"__device__ const float t[4] = {1, 2, 3, 4};\n" +
           in_kernel(
               "float* p; asm volatile(\"mov.u64 %0, %1;\" : \"=l\"(p) : \"l\"(&t[n & 3])); *p = 1.0f; y[0] = t[n];"),
       "may only be read"},
      {"__device__ float t[4];\n__device__ __noinline__ void put(float* p) { *p = 1.0f; }\n" +
           in_kernel("put(t + n); y[0] = t[n];"),
       "may only be read"},
      {"__device__ float t[4];\n__constant__ float* where[2] = {t, t + 1};\n" +
           in_kernel("where[n & 1][0] = 2.0f; y[0] = *where[1];"),
       "may write the device variable"},
      {"__device__ float t[4];\n" + in_kernel("float* slots[2] = {y, t}; slots[n & 1][0] = 2.0f;"), "may only be read"},
  });
}

TEST(rules, refuse_inline_assembly_that_ptxas_might_read_differently) {
  expect_refused({
      {in_asm("/* \\n mov.u32 %r1, %clock; \\n */"), "comments of C"},
  });
  const auto text = [](const std::string& body) {
    return ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n" + body + "\nret;\n}\n";
  };
  const auto problem = [](const std::string& ptx) {
    const auto module = parse_ptx(ptx);
    if (!module) return module.error().message;
    const auto checked = check_ptx(*module);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(problem(text(".reg .b32 %r<3>; mov.u32 %r1, %tid.x; { .reg .pred p; setp.eq.u32 p, %r1, 0; @p trap; }")),
            "");
  EXPECT_THAT(problem(text("#define a b\n")), HasSubstr("preprocessor"));
  EXPECT_THAT(problem(text(".pragma \"a\nb\";")), HasSubstr("string"));
  EXPECT_THAT(problem(text("mov.u32 r, \\x;")), HasSubstr("refused"));
  EXPECT_THAT(problem(text(".reg .b32 %clock<65>; mov.u32 %r1, %clock64;")), HasSubstr("names of special registers"));
  EXPECT_THAT(problem(text(".reg .b32 %r<2>; @%p1 mov.u32 %r1, %clock;")), HasSubstr("%clock"));
  EXPECT_THAT(problem(text(".reg .b32 %r<2>; @!%p1 mov.u32 %r1, %clock;")), HasSubstr("%clock"));
  EXPECT_THAT(problem(text(".reg .b32 %r<2>; here: mov.u32 %r1, %clock;")), HasSubstr("%clock"));
  EXPECT_THAT(problem(text(".reg .b32 %r<2>; mov.u32 %r1, %r7777; // %clock\n")), "") << "ptxas refuses this itself";
  EXPECT_THAT(problem(text("{ { nanosleep.u32 5; } }")), HasSubstr("sleeping"));
  EXPECT_THAT(problem(".include \"x\";\n" + text("")), HasSubstr("files"));
  EXPECT_THAT(problem("}"), HasSubstr("closes a block"));
  EXPECT_THAT(problem("{"), HasSubstr("the PTX is incomplete"));
  EXPECT_EQ(problem(".version 9.0\n.target sm_90\n.address_size 64\n"), "") << "a source that compiles to nothing";
  EXPECT_THAT(problem(".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry k()"), HasSubstr("incomplete"));
  EXPECT_THAT(problem(".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"), HasSubstr("printf"));
}

TEST(rules, allow_tables_traps_and_inline_assembly_that_computes) {
  for (const auto& source : std::vector<std::string>{
           "const float t[4] = {1, 2, 3, 4};\nstatic const int s[2] = {1, 2};\n" +
               in_kernel("static const float u[4] = {5, 6, 7, 8}; y[n] = t[n & 3] * s[n & 1] + u[n & 3];"),
           "__constant__ float c[16];\n" + in_kernel("y[n] = c[n & 15];"),
           "__device__ const float zeros[16] = {};\n" + in_kernel("y[n] = zeros[n & 15];"),
           in_kernel("if (n < 0) __trap(); y[0] = 1.0f;"),
           in_kernel(
               "unsigned v; asm(\"{ .reg .u32 t; mov.u32 t, %%laneid; add.u32 %0, t, 1; }\" : \"=r\"(v)); y[0] = v;"),
           in_kernel(
               "float v; asm volatile(\"ld.global.L1::no_allocate.L2::128B.f32 %0, [%1];\" : \"=f\"(v) : \"l\"(y)); "
               "y[1] = v;"),
           in_kernel("float v; asm volatile(\"ld.global.L2::cache_hint.f32 %0, [%1], %2;\" : \"=f\"(v) : \"l\"(y), "
                     "\"l\"(0x12F0000000000000ull)); y[1] = v;"),
           in_kernel("__shared__ float s[32]; asm volatile(\"cp.async.ca.shared.global [%0], [%1], 4;\" :: "
                     "\"r\"((unsigned)__cvta_generic_to_shared(s)), \"l\"(y)); asm volatile(\"cp.async.wait_all;\"); "
                     "__syncthreads(); y[1] = s[0];"),
           "__device__ __noinline__ float depth(int n) { return n < 2 ? 1.0f : depth(n - 1) + depth(n - 2); }\n" +
               in_kernel("y[0] = depth(n);"),
           "struct shape { float a; __device__ float area() const { return a * a; } };\n" +
               in_kernel("y[0] = shape{y[1]}.area();"),
           "__device__ float twice(float v) { return 2 * v; }\n__device__ float half_of(float v) { return v / 2; }\n" +
               in_kernel("float (*f)(float) = n ? twice : half_of; y[0] = f(y[1]);")}) {
    const auto made = compile(source);
    EXPECT_TRUE(made) << source << "\n" << made.error().message;
  }
}

}  // namespace
}  // namespace cudal1::test
