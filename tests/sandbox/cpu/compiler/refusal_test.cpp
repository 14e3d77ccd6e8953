// What the device does not support, what the sandbox refuses, and how the compiler's own errors are reported.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cpu/compiler/compiler_process.hpp"
#include "sandbox/cpu/compiler/object_rules.hpp"
#include "tests/sandbox/cpu/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

std::string in_kernel(const std::string& body) {
  return "\n__global__ void k(float* y) {\n" + body + "\n}\n";
}

struct refusal {
  std::string source;
  std::string says;
};

TEST(UnsupportedFeature, SaysWhatToWriteInstead) {
  const refusal all[] = {
      {in_kernel("float* p = new float[3];"), "alloc a tensor as a step"},
      {in_kernel("auto g = cooperative_groups::this_grid();"), "use __syncthreads()"},
      {in_kernel("nvcuda::wmma::fragment<int> f;"), "an aten::mm step"},
      {in_kernel("__pipeline_memcpy_async(y, y, 16);"), "use copy_async, copy_async_commit"},
      {in_kernel("__half2 h;"), "float_of_half and half_of_float convert"},
      {in_kernel("y[0] = tex2D<float>(t, 0, 0);"), "read through a pointer"},
      {in_kernel("y[0] = std::min(1, 2);"), "exist without std::"},
      {"\n\nusing namespace std;", "use plain names"},
      {in_kernel("y[0] = __shfl(y[0], 1);"), "use those with _sync"},
  };
  for (const auto& [source, says] : all)
    EXPECT_THAT(compile_error(source).message, HasSubstr(says)) << source;
}

TEST(UnsupportedFeature, IsAnErrorThatNamesItAndItsLine) {
  const refusal all[] = {
      {in_kernel("printf(\"x\");"), "printf"},
      {in_kernel("y[0] = clock64();"), "clocks"},
      {in_kernel("float* p = new float[3];"), "device heap"},
      {in_kernel("void* p = malloc(3);"), "device heap"},
      {in_kernel("auto g = cooperative_groups::this_grid();"), "cooperative groups"},
      {in_kernel("nvcuda::wmma::fragment<int> f;"), "wmma"},
      {in_kernel("__pipeline_memcpy_async(y, y, 16);"), "cp.async"},
      {in_kernel("y[0] = tex2D<float>(t, 0, 0);"), "textures"},
      {in_kernel("k<<<1, 1>>>(y);"), "dynamic parallelism"},
      {in_kernel("cudaDeviceSynchronize();"), "dynamic parallelism"},
      {in_kernel("half h = 0;"), "half-precision"},
      {in_kernel("__half2 h;"), "half-precision"},
      {in_kernel("__nv_bfloat16 h;"), "half-precision"},
      {in_kernel("y[0] = __shfl(y[0], 1);"), "without _sync"},
      {in_kernel("std::abort();"), "std::"},
      {in_kernel("assert(y != 0);"), "assert"},
      {in_kernel("try { } catch (...) { }"), "exceptions"},
      {in_kernel("static thread_local int t;"), "thread-local"},
      {"\n\n" + std::string("using namespace std;"), "namespaces"},
      {"\n\nstruct s { virtual void f(); };", "virtual functions"},
      {"\n\nstruct s { __device__ int f() { return threadIdx.x; } };" + in_kernel("y[0] = s().f();"),
       "member functions"},
      {"\n\n__managed__ int x;", "managed memory"},
      {in_kernel("__shared__ float s = 1;"), "initialised"},
  };
  for (const auto& [source, says] : all) {
    const auto e = compile_error(source);
    EXPECT_EQ(e.code, errc::unsupported) << source << e.message;
    EXPECT_THAT(e.message, HasSubstr(says)) << source;
    EXPECT_THAT(e.message, HasSubstr("line 3 of the source")) << source;
  }
  // The same words are fine as names of variables.
  EXPECT_TRUE(compile(in_kernel("int half = 3, std = 4; float clock = half * std; y[half] = clock;")));
}

TEST(HostileSource, IsRefusedBeforeAnyCompilerSeesIt) {
  const refusal all[] = {
      {"#include \"/etc/passwd\"\n" + in_kernel(""), "preprocessor line"},
      {"#include </etc/passwd>\n" + in_kernel(""), "preprocessor line"},
      {"#  inc\\\nlude \"/etc/passwd\"\n" + in_kernel(""), "preprocessor line"},
      {"/* */ #include_next <x>\n" + in_kernel(""), "preprocessor line"},
      {"%:include \"/etc/passwd\"\n" + in_kernel(""), "digraph"},
      {"#import \"/etc/passwd\"\n", "preprocessor line"},
      {"#line 3 \"/etc/passwd\"\n", "preprocessor line"},
      {"#pragma GCC optimize(\"O0\")\n", "preprocessor line"},
      {"#pragma GCC target(\"avx512f\")\n", "preprocessor line"},
      {"#if __has_include(\"/etc/passwd\")\n#endif\n", "files"},
      {in_kernel("asm(\"syscall\");"), "inline assembly"},
      {in_kernel("__asm__ volatile(\".incbin \\\"/etc/passwd\\\"\");"), "inline assembly"},
      {in_kernel("a\\\nsm(\"rdtsc\");"), "inline assembly"},
      {"#define PASTE(a, b) a##b\n" + in_kernel("PASTE(as, m)(\"rdtsc\");"), "inline assembly"},
      {"#define PASTE(a, b) a##b\n" + in_kernel("PASTE(__builtin_, ia32_rdtsc)();"), "builtin"},
      {"__attribute__((constructor)) void f() {}", "attributes"},
      {"[[gnu::constructor]] void f() {}", "attributes"},
      {"[[using gnu: constructor]] void f() {}", "attributes"},
      {in_kernel("y[0] = __builtin_ia32_rdtsc();"), "builtin"},
      {in_kernel("const char* f = __FILE__;"), "names of files"},
      {in_kernel("const char* f = __DATE__;"), "clocks"},
      {in_kernel("_Pragma(\"GCC optimize 0\")"), "pragmas"},
      {"extern int environ;", "extern"},
      {in_kernel("cudal1_rt_barrier(0, 0, 0);"), "cudal1"},
      {"#define cudal1_state x\n", "cudal1"},
      {in_kernel("const char* s = R\"(\"; asm(\")\");"), "raw strings"},
      {in_kernel("int \\u0061sm = 0;"), "backslash"},
  };
  for (const auto& [source, says] : all) {
    const auto e = compile_error(source);
    EXPECT_EQ(e.code, errc::refused) << source << e.message;
    EXPECT_THAT(e.message, HasSubstr(says)) << source;
  }
}

TEST(HostileSource, CannotKeepStateBetweenCalls) {
  const refusal all[] = {
      {in_kernel("static int calls; y[0] = ++calls;"), "calls"},
      {in_kernel("static float kept = 3.f; y[0] = kept; kept = y[1];"), "kept"},
      {"__device__ int counter;\n" + in_kernel("y[0] = atomicAdd(&counter, 1);"), "counter"},
      {"__device__ float table[4] = {1, 2, 3, 4};\n" + in_kernel("y[0] = table[(int)y[1]]; table[2] = y[2];"), "table"},
  };
  for (const auto& [source, says] : all) {
    const auto e = compile_error(source);
    EXPECT_EQ(e.code, errc::refused) << source << e.message;
    EXPECT_THAT(e.message, HasSubstr("state between calls")) << source;
    EXPECT_THAT(e.message, HasSubstr(says)) << source;
  }
  // Read-only tables are not state.
  kernels k(
      "__constant__ float t[4] = {1, 2, 3, 4}; __global__ void k(const int* i, float* y) { static const int u[3] = {5, "
      "6, 7}; y[0] = t[i[0]] * u[i[0]]; }");
  int i = 2;
  float y = 0;
  k.launch("k", {1, 1, 1}, {1, 1, 1}, &i, &y);
  EXPECT_EQ(y, 21.f);
}

TEST(HostileSource, ThatTakesForeverOrTooMuchMemoryIsATimeout) {
  auto options = host_compiler_options{};
  options.time_limit_s = 1;
  const auto limited = std::move(*host_compiler::create(options));
  // 2^60 instantiations, none deeper than the limit.
  const auto endless = limited->compile(program_of(
      "template <int D, long N> struct t { static constexpr long v = t<D - 1, 2 * N>::v + t<D - 1, 2 * N + 1>::v; };\n"
      "template <long N> struct t<0, N> { static constexpr long v = 1; };\n" +
      in_kernel("y[0] = t<60, 0>::v;")));
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, errc::timeout) << endless.error().message;

  // Macros that double forty times.
  std::string bomb = "#define A0 x x\n";
  for (int i = 1; i < 40; ++i)
    bomb += "#define A" + std::to_string(i) + " A" + std::to_string(i - 1) + " A" + std::to_string(i - 1) + "\n";
  const auto large = limited->compile(program_of(bomb + in_kernel("A39;")));
  ASSERT_FALSE(large);

  const auto deep = compile_error("template <int N> struct d { static constexpr int v = d<N + 1>::v; };" +
                                  in_kernel("y[0] = d<0>::v;"));
  EXPECT_EQ(deep.code, errc::compile_failed);
  EXPECT_LT(deep.message.size(), 20000u);
}

TEST(CompileError, NamesTheLineOfTheProgramsSourceAndNoTemporaryFile) {
  for (const std::string prefix : {"", "#define ONE 1\n"}) {
    const auto e = compile_error(prefix + "__global__ void first(float* y) { y[0] = 1.f; }\n\n" +
                                 in_kernel("  y[threadIdx.x] = undeclared;"));
    EXPECT_EQ(e.code, errc::compile_failed);
    EXPECT_THAT(e.message, HasSubstr(prefix.empty() ? "program.cu:5:" : "program.cu:6:"));
    EXPECT_THAT(e.message, HasSubstr("undeclared"));
    EXPECT_THAT(e.message, testing::Not(HasSubstr("/tmp")));
  }
  EXPECT_EQ(compile_error("__global__ void k(float* y) { y[0] = (1; }").code, errc::compile_failed);
  for (const auto* const unfinished : {"\ntemplate <class T, (", "\nextern \"C\"", "\ntemplate <class T>"})
    EXPECT_THAT(compile_error(unfinished).message, HasSubstr("line 2 of the source: the declaration")) << unfinished;
  EXPECT_THAT(compile_error("__global__ int k(float* y) { return 1; }").message, HasSubstr("returns void"));
  EXPECT_THAT(compile_error("__global__ void k(float& y) { }").message, HasSubstr("reference"));
  EXPECT_THAT(
      compile_error(in_kernel("float big[20000]; for (int i = 0; i < 20000; ++i) big[i] = y[i]; __syncthreads(); "
                              "for (int i = 0; i < 20000; ++i) y[i] = big[19999 - i];"))
          .message,
      HasSubstr("frame size"));
}

TEST(CompileError, SaysThatALaunchedKernelIsMissing) {
  auto p = program_of("template <int N> __global__ void k(float* y) { y[0] = N; }");
  launch_step launch;
  launch.kernel = "k";
  p.text.steps.push_back(launch);
  const auto e = compiler().compile(p);
  ASSERT_FALSE(e);
  EXPECT_THAT(e.error().message, HasSubstr("no kernel \"k\""));
}

// An object of arbitrary C++ and assembly, without the rules about source.
std::string object_of(const std::string& source, const std::string& flags = "") {
  const auto folder = std::move(*private_folder::create());
  std::ofstream(folder.path() + "/x.cpp") << source;
  const std::string command =
      "g++ -O2 -fPIC -shared -nostdlib -w -fvisibility=hidden -fno-asynchronous-unwind-tables "
      "-Wl,-z,relro,-z,now,-z,noexecstack,--build-id=none " +
      flags + " -o " + folder.path() + "/x.so " + folder.path() + "/x.cpp";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("cannot compile " + source);
  std::ifstream file(folder.path() + "/x.so", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const std::string entry =
    "extern \"C\" __attribute__((visibility(\"default"
    "\"))) void cudal1_run_k(int* p, int n) ";

TEST(ObjectRules, AcceptWhatKernelsNeed) {
  EXPECT_TRUE(check_object(object_of(entry + "{ for (int i = 0; i < n; ++i) p[i] = i; }")));
  EXPECT_TRUE(check_object(
      object_of("extern \"C\" float sinf(float); extern \"C\" void* memcpy(void*, const void*, unsigned long);" +
                entry + "{ ((float*)p)[0] = sinf(n); memcpy(p + 1, p, n); }")));
}

TEST(ObjectRules, RefuseEachOffendingConstructWithItsRule) {
  const refusal all[] = {
      {entry + "{ static int state = 5; p[0] = state++; }",
       "section .data (it holds \"cudal1_run_k::state\"): a writable variable"},
      {"int counter;" + entry + "{ p[0] = ++counter; }", "counter"},
      {"__attribute__((constructor)) void early() { __builtin_trap(); }" + entry + "{ }", "when the object is loaded"},
      {"__attribute__((destructor)) void late() { __builtin_trap(); }" + entry + "{ }", "when the object is loaded"},
      {"thread_local int t;" + entry + "{ p[0] = ++t; }", "thread-local"},
      {"extern \"C\" int getpid();" + entry + "{ p[0] = getpid(); }", "imports \"getpid\""},
      {"extern \"C\" void* dlsym(void*, const char*);" + entry + "{ dlsym(0, \"open\"); }", "imports \"dlsym\""},
      {"static int one() { return 1; } extern \"C\" { int (*pick())() { return one; } } int two() "
       "__attribute__((ifunc(\"pick\")));" +
           entry + "{ p[0] = two(); }",
       "ifunc"},
      {"extern \"C\" __attribute__((visibility(\"default\"))) void* malloc(unsigned long) { return 0; }" + entry +
           "{ }",
       "exports \"malloc\""},
      {entry + "{ asm volatile(\"syscall\"); }", "\"syscall\" at"},
      {entry + "{ asm volatile(\"sysenter\"); }", "it enters the operating system"},
      {entry + "{ asm volatile(\"int $0x80\"); }", "it enters the operating system"},
      {entry + "{ unsigned a, d; asm volatile(\"rdtsc\" : \"=a\"(a), \"=d\"(d)); p[0] = a; }", "a clock"},
      {entry + "{ asm volatile(\"rdtscp\" ::: \"eax\", \"edx\", \"ecx\"); }", "a clock"},
      {entry + "{ asm volatile(\"rdpmc\" ::: \"eax\", \"edx\"); }", "a clock"},
      {entry + "{ asm volatile(\"rdrand %%eax\" ::: \"eax\"); }", "random numbers"},
      {entry + "{ asm volatile(\"rdseed %%eax\" ::: \"eax\"); }", "random numbers"},
      {entry + "{ asm volatile(\"cpuid\" ::: \"eax\", \"ebx\", \"ecx\", \"edx\"); }", "identifies the processor"},
      {entry + "{ asm volatile(\"xgetbv\" ::: \"eax\", \"edx\"); }", "identifies the processor"},
      {entry + "{ asm volatile(\"hlt\"); }", "input and output"},
      {entry + "{ asm volatile(\"outb %%al, %%dx\" ::); }", "input and output"},
      {entry + "{ asm volatile(\"mov %%eax, %%fs\" ::); }", "segment registers"},
      {entry + "{ asm volatile(\"mov %%fs:0, %%rax\" ::: \"rax\"); }", "segment registers"},
      {entry + "{ asm volatile(\"wrfsbase %%rax\" ::); }", "segment registers"},
      {entry + "{ asm volatile(\"clflush (%0)\" :: \"r\"(p)); }", "caches"},
      {entry + "{ asm volatile(\"jmp 1f + 1\\n1: mov $0x050f, %%eax\" ::: \"eax\"); }", "where no instruction begins"},
      {entry + "{ asm volatile(\"mov $0x050f, %%eax; jmp *%%rdx\" ::: \"eax\"); }", "bytes of syscall"},
      {entry + "{ asm volatile(\".byte 0x06\"); }", "cannot be decoded as an instruction"},
      {entry + "{ asm volatile(\".section .odd, \\\"ax\\\"\\n nop\\n .text\"); }", "section .odd"},
      {entry + "{ } extern \"C\" int g; int* table[] = {&g, 0}; int g;", "state between calls"},
  };
  for (const auto& [source, says] : all) {
    const auto result = check_object(object_of(source));
    ASSERT_FALSE(result) << source;
    EXPECT_EQ(result.error().code, errc::refused);
    EXPECT_THAT(result.error().message, HasSubstr(says)) << source;
  }
  EXPECT_THAT(check_object(object_of(entry + "{ }", "-Wl,-z,execstack")).error().message,
              HasSubstr("executable stack"));
  EXPECT_THAT(check_object(object_of("extern \"C\" float sinf(float);" + entry + "{ p[0] = sinf(n); }",
                                     "-Wl,-z,lazy,-z,norelro"))
                  .error()
                  .message,
              HasSubstr("writable"));
  EXPECT_THAT(check_object(object_of(entry + "{ }", "-Wl,--no-as-needed -lm")).error().message,
              HasSubstr("other libraries"));
}

TEST(ObjectRules, SurviveDamagedObjects) {
  const std::string good = object_of("extern \"C\" float sinf(float);" + entry + "{ p[0] = sinf(n); }");
  for (std::size_t length = 0; length < good.size(); length += 61)
    EXPECT_FALSE(check_object(good.substr(0, length)));
  uint32_t random = 12345;
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = good;
    for (int k = 0; k < 4; ++k) {
      random = random * 1664525u + 1013904223u;
      const std::size_t at = (random >> 8) % (round % 2 ? 1024 : damaged.size());
      damaged[at] = static_cast<char>(random >> 24);
    }
    (void)check_object(damaged);  // any result, but no crash
  }
}

}  // namespace
}  // namespace cudal1::test
