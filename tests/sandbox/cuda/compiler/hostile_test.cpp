// Sources that attack the compiler: files, time, memory, and the processes themselves.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/compiler/compile_process.hpp"
#include "sandbox/isolation/landlock.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;
using testing::Not;

compile_processes& processes() {
  static const auto made = [] {
    compile_settings settings;
    settings.architecture = "sm_80";
    auto started = compile_processes::start("", settings);
    if (!started) throw std::runtime_error(started.error().message);
    return std::move(*started);
  }();
  return *made;
}

bool has_landlock() {
  const auto ruleset = make_landlock_ruleset({});
  return ruleset && *ruleset;
}

TEST(hostile_source, names_no_file) {
  for (const std::string include :
       {"#include \"/etc/passwd\"\n", "#include </proc/self/environ>\n", "#include <stdio.h>\n",
        "#if __has_include(</etc/shadow>)\n#endif\n", "#include \"../../../../etc/passwd\"\n"}) {
    const auto e = compile_error(include + in_kernel("y[0] = 1.0f;"));
    EXPECT_EQ(e.code, errc::invalid_program) << include << e.message;
  }
}

// The same without the rules about text: the process itself cannot read files.
TEST(hostile_source, reads_no_file_even_if_the_rules_about_text_fail) {
  if (!has_landlock()) GTEST_SKIP() << "this Linux kernel has no Landlock; only the rules about text apply";
  for (const std::string path : {"/etc/passwd", "/proc/self/environ", "/proc/self/maps", "/usr/include/stdio.h",
                                 "/etc/ld.so.cache", "/dev/zero", "/sys/devices/system/cpu/online"}) {
    for (const std::string headers : {"", "cuda"}) {
      compile_request request;
      request.source = "#include \"" + path + "\"\nextern \"C\" __global__ void k(float* y) { y[0] = 1.0f; }\n";
      if (!headers.empty()) request.headers.push_back(headers);
      const auto output = processes().run(request);
      if (!output && output.error().code == errc::unsupported) continue;  // headers that are not installed
      ASSERT_TRUE(output) << path << ": " << output.error().message;
      EXPECT_EQ(output->status, compile_status::refused) << path;
      EXPECT_THAT(output->log, HasSubstr("open source file")) << path;
      EXPECT_THAT(output->log, Not(HasSubstr("root:"))) << path;
    }
  }
}

TEST(hostile_source, embeds_no_file_through_the_assembler) {
  for (const std::string text :
       {".incbin \\\"/etc/passwd\\\";", ".include \\\"/etc/passwd\\\";", "#include \\\"/etc/passwd\\\"\\n"}) {
    const auto e = compile_error(in_kernel("asm volatile(\"" + text + "\"); y[0] = 1.0f;"));
    EXPECT_TRUE(e.code == errc::compile_failed || e.code == errc::refused) << text << ": " << e.message;
    EXPECT_THAT(e.message, Not(HasSubstr("root:"))) << text;
  }
}

TEST(hostile_source, cannot_close_what_is_not_open) {
  for (const std::string source : {"}\n", "} extern \"C\" {\n", "#line 1 \"/etc/passwd\"\n", "#endif\n",
                                   "#undef INFINITY\n#define k )\n", "\"\n", "/*\n"}) {
    const auto made = compile(source + in_kernel("y[0] = 1.0f;"));
    EXPECT_FALSE(made) << source;
    if (made) continue;
    EXPECT_NE(made.error().code, errc::infrastructure) << source << made.error().message;
  }
}

class limits : public testing::Test {
 protected:
  static std::unique_ptr<nvrtc_compiler> make(double time_s, int64_t memory_bytes) {
    auto made = nvrtc_compiler::create(limited(time_s, memory_bytes));
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
};

TEST_F(limits, end_templates_that_never_end) {
  const auto compiler = make(1.5, int64_t{1} << 30);
  const auto begin = std::chrono::steady_clock::now();
  const auto made = compiler->compile(program_of(
      "template <int A, int B> struct f { static constexpr long v = f<A - 1, B>::v + f<A - 1, B + 1>::v; };\n"
      "template <int B> struct f<0, B> { static constexpr long v = B; };\n"
      "constexpr int loop(int n) { int s = 0; for (int i = 0; i < n; ++i) for (int j = 0; j < n; ++j) s ^= i * j; "
      "return s; }\n" +
      in_kernel("y[0] = f<170, 0>::v + f<169, 1000>::v;")));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(made);
  EXPECT_TRUE(made.error().code == errc::timeout || made.error().code == errc::compile_failed) << made.error().message;
  EXPECT_LT(took.count(), 8);
  EXPECT_TRUE(compiler->compile(program_of(in_kernel("y[0] = 1.0f;")))) << "and the next one compiles";
}

TEST_F(limits, end_compilations_that_take_too_long) {
  const auto compiler = make(1, int64_t{4} << 30);
  std::string source =
      "#define A(x) x = x * 1.5f + y[i * 3 + (int)x]; y[i] = x;\n#define B(x) A(x) A(x) A(x) A(x) A(x) A(x) A(x) A(x)\n"
      "#define C(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x) B(x)\n#define D(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x) C(x)\n" +
      in_kernel(
          "for (int i = 0; i < n; ++i) { float x = y[i]; D(x) D(x) D(x) D(x) D(x) D(x) D(x) D(x) D(x) D(x) D(x) D(x) "
          "}");
  const auto made = compiler->compile(program_of(source));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::timeout) << made.error().message;
  EXPECT_THAT(made.error().message, HasSubstr("within 1 s"));
  EXPECT_TRUE(compiler->compile(program_of(in_kernel("y[0] = 1.0f;")))) << "and the next one compiles";
}

TEST_F(limits, end_compilations_that_take_too_much_memory) {
  const auto compiler = make(20, 96 << 20);
  const std::string source = "__device__ const char table[1 << 27] = {1};\n" + in_kernel("y[0] = table[n];");
  const auto made = compiler->compile(program_of(source));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, errc::timeout) << made.error().message;
  EXPECT_THAT(made.error().message, HasSubstr("96 MiB of memory"));
  EXPECT_TRUE(compiler->compile(program_of(in_kernel("y[0] = 1.0f;")))) << "and the next one compiles";
}

TEST(hostile_source, that_fails_does_not_affect_the_next_one) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(
        compile("template <class T> struct S; template <> struct S<int> { int v" + std::string(i, 'x') + " };"));
    EXPECT_FALSE(compile(in_kernel("asm volatile(\"garbage %0;\" :: \"r\"(n));")));
    EXPECT_TRUE(compile(in_kernel("y[0] = " + std::to_string(i) + ".0f;")));
  }
}

}  // namespace
}  // namespace cudal1::test
