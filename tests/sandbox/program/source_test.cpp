// The rules for sources, and finding kernels in them.
#include "sandbox/program/source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::HasSubstr;

std::string problem(std::string_view source, const std::vector<std::string>& headers = {}) {
  const auto outcome = check_source(source, headers);
  return outcome ? "" : outcome.error().message;
}

TEST(check_source, accepts_usual_kernel_sources) {
  EXPECT_EQ(problem(""), "");
  EXPECT_EQ(problem("#define TILE 16\n#ifdef TILE\n#elif 1\n#else\n#endif\n#undef TILE\n"), "");
  EXPECT_EQ(problem("#pragma unroll\n  # pragma unroll 4\n#define ADD(a, b) \\\n  ((a) + (b))\n"), "");
  EXPECT_EQ(
      problem("/* #include <x> */ // #include <y>\nconst char* s = \"#include\\\"\"; char c = '\\''; int n = 1'000;\n"),
      "");
  EXPECT_EQ(problem("// Gr\xc3\xb6\xc3\x9f"
                    "e\n#define STR(x) #x\n#define CAT(a, b) a##b\n"),
            "");
}

TEST(check_source, rejects_all_other_preprocessor_lines) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"int x;\n#include <stdio.h>\n", "source line 2: #include is not allowed"},
      {"#include \"/etc/passwd\"", "#include is not allowed"},
      {"   #   include <x>\n", "#include is not allowed"},
      {"int a; /*\n*/\n #\tinclude <x>\n", "source line 3: #include is not allowed"},
      {"#include_next <x>\n", "#include is not allowed"},
      {"/* a\n */ #include <x>\n", "source line 2: #include is not allowed"},
      {"#/**/include <x>\n", "#include is not allowed"},
      {"#inc\\\nlude <x>\n", "#include is not allowed"},
      {"#\\\ninclude <x>\n", "#include is not allowed"},
      {"\\\n#include <x>\n", "#include is not allowed"},
      {"// a \\\nb\n#include <x>\n", "line 3: #include is not allowed"},
      {"/\\\n* hidden? *\\\n/ \n#include <x>\n", "#include is not allowed"},
      {"\"a\\\\\"\n#include <x>\n", "#include is not allowed"},
      {"'\"'\n#include <x>\n'\"'", "#include is not allowed"},
      {"int a = 1'0'0;\n#include <x>\n//'", "#include is not allowed"},
      {"%:include <x>\n", "digraph"},
      {"x %\\\n:include\n", "digraph"},
      {"?\?=include <x>\n", "trigraph ?\?="},
      {"// what ?\?/\n#include <x>\n", "trigraph ?\?/"},
      {"#define A \\ \n#include <x>\n", "backslash before blanks"},
      {"#define A \\", "backslash before blanks at a line's end"},
      {"const char* s = R\"(\n#include)\";\n", "raw strings"},
      {"auto s = u8R\"x(y)x\";", "raw strings"},
      {"#pragma GCC optimize(\"O0\")\n", "#pragma GCC is not allowed"},
      {"#pragma once\n", "#pragma once is not allowed"},
      {"_Pragma(\"GCC poison x\")\n", "_Pragma is not allowed"},
      {"#if __has_include(</etc/shadow>)\n#endif\n", "__has_include is not allowed"},
      {"#embed </etc/passwd>\n", "#embed is not allowed"},
      {"#line 5 \"x\"\n", "#line is not allowed"},
      {"#error no\n", "#error is not allowed"},
      {"# 5 \"x\"\n", "#5 is not allowed"},
      {"#import <x>\n", "#import is not allowed"},
      {"#define __global__\n", "#define __global__: names that begin with two underscores"},
      {"#undef __syncthreads\n", "#undef __syncthreads"},
      {"\\u0023include <x>\n", "backslash outside of a literal"},
      {"int \xc3\xa4 = 1;\n", "other than ASCII"},
      {"/* open", "the comment is not closed"},
      {"\"open\n\"", "the string is not closed"},
      {"'x\n'", "the character literal is not closed"},
      {std::string("int a;\0int b;", 13), "control character 0x00"},
      {"int a;\r#include <x>\n", "control character 0x0d"},
      {"int a;\f", "control character 0x0c"},
      {"// \xff\n", "valid UTF-8"},
      {"// \xc0\xaf\n", "valid UTF-8"},
      {"// \xed\xa0\x80\n", "valid UTF-8"},
      {"// \xf4\x90\x80\x80\n", "valid UTF-8"},
      {"// \xe2\x82", "valid UTF-8"},
  };
  for (const auto& [source, wanted] : cases)
    EXPECT_THAT(problem(source), HasSubstr(wanted)) << source;
}

TEST(check_source, allows_includes_by_plain_paths_in_programs_with_headers) {
  EXPECT_EQ(problem("#include <cub/cub.cuh>\n # include \"cute/tensor.hpp\" // why\n#include<cuda_fp16.h>\n", {"cub"}),
            "");
  for (const std::string_view source :
       {"#include \"/etc/passwd\"\n", "#include </proc/self/environ>\n", "#include <cub/../../../etc/passwd>\n",
        "#include \"..\"\n", "#define X </etc/passwd>\n#include X\n", "#include <a b>\n", "#include \"a\\\"b\"\n",
        "#include <>\n", "#include\n", "#include <a\n", "#include <a> <b>\n", "#include \"\x01\"\n"})
    EXPECT_NE(problem(source, {"cub"}), "") << source;
  EXPECT_THAT(problem("int a;\n#include_next <x>\n", {"cub"}), HasSubstr("source line 2: #include is not allowed"));
  EXPECT_THAT(problem("#import <x>\n", {"cub"}), HasSubstr("#import is not allowed"));
  EXPECT_THAT(problem("#if __has_include(<x>)\n#endif\n", {"cub"}), HasSubstr("__has_include is not allowed"));
}

std::vector<kernel_signature> kernels_of(std::string_view source) {
  const auto kernels = find_kernels(source);
  EXPECT_TRUE(kernels) << kernels.error().message;
  return kernels ? *kernels : std::vector<kernel_signature>();
}

TEST(find_kernels, finds_each_with_its_parameters) {
  const auto kernels = kernels_of(R"(
    // __global__ void commented(int a) {}
    __device__ float helper(float x) { return x; }
    extern "C" __global__ void __launch_bounds__(256, 2) first(const float* __restrict__ a, float *b, int n,
                                                               const float eps = 1.0f) {}
    __global__ __launch_bounds__(TILE * 2)
    void second(unsigned long long n, float (*table)[4], half const * h, pair<int, float> p) {}
    static __global__ void third() {}
    __global__ void fourth(void) {}
    __global__ int wrong(int a) {}
    __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) fifth(int a) {}
  )");
  ASSERT_EQ(kernels.size(), 5u);
  EXPECT_EQ(kernels[4].name, "fifth");
  EXPECT_EQ(kernels[0].name, "first");
  ASSERT_EQ(kernels[0].parameters.size(), 4u);
  EXPECT_EQ(kernels[0].parameters[0].type, "const float*");
  EXPECT_TRUE(kernels[0].parameters[0].is_pointer);
  EXPECT_EQ(kernels[0].parameters[1].text, "float* b");
  EXPECT_EQ(kernels[0].parameters[2].type, "int");
  EXPECT_FALSE(kernels[0].parameters[2].is_pointer);
  EXPECT_EQ(kernels[0].parameters[3].type, "const float");
  EXPECT_EQ(kernels[1].name, "second");
  ASSERT_EQ(kernels[1].parameters.size(), 4u);
  EXPECT_EQ(kernels[1].parameters[0].type, "unsigned long long");
  EXPECT_TRUE(kernels[1].parameters[1].is_pointer);
  EXPECT_EQ(kernels[1].parameters[2].type, "half const*");
  EXPECT_EQ(kernels[1].parameters[3].type, "") << "not recognised";
  EXPECT_EQ(kernels[2].name, "third");
  EXPECT_TRUE(kernels[2].parameters.empty());
  EXPECT_TRUE(kernels[3].parameters.empty());
}

TEST(find_kernels, is_not_misled_by_unfinished_text) {
  for (const auto* source :
       {"__global__", "__global__ void", "__global__ void f", "__global__ void f(", "__global__ void (",
        "__global__ __launch_bounds__(", "__global__ void f(int a, (", "__global__ void f)("})
    EXPECT_TRUE(kernels_of(source).empty()) << source;
}

}  // namespace
}  // namespace cudal1
