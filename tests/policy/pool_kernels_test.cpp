// Pools as kernels of our own: the gates accept them, with CUDA's kernels compiled for the host, and what must stay a
// library call does.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"
#include "tests/policy/pool_tasks.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

class PoolKernels : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

// The case's kernel, and those with more windows a thread that differ.
std::vector<program> kernels_of(const pool_case& c) {
  std::vector<program> out;
  std::set<std::string> sources;
  for (const char* tuning : {"", "; items(group=0, elements=2)", "; items(group=0, elements=4)"}) {
    auto made = lower(c.what, parsed(c.schedule + tuning), for_cuda());
    if (!made && *tuning != '\0') continue;
    if (!made) throw std::runtime_error(c.what.name + ": " + made.error().message);
    if (sources.insert(made->checked.text.source).second) out.push_back(std::move(made->checked.text));
  }
  return out;
}

std::size_t launches_of(const program& p) {
  return static_cast<std::size_t>(
      std::ranges::count_if(p.steps, [](const auto& s) { return std::holds_alternative<launch_step>(s); }));
}

TEST_F(PoolKernels, AreAcceptedByTheGates) {
  std::size_t several = 0;
  for (const char* type : {"float32", "float16", "bfloat16"})
    for (const auto& c : pool_cases(type)) {
      // ATen has no average of volumes of half types for the CPU.
      if (type != std::string("float32") && c.what.name == "avg_3d") continue;
      judged_task gates(c.what);
      const auto programs = kernels_of(c);
      several += programs.size() - 1;
      for (const auto& p : programs) {
        EXPECT_EQ(launches_of(p), 1U) << c.what.name;
        EXPECT_THAT(calls_of(p), testing::AnyOf("", "slice.Tensor ", "expand ")) << c.what.name;
        EXPECT_EQ(gates.problem_of(p), "") << c.what.name << ", " << type << "\n" << p.source;
      }
    }
  EXPECT_GT(several, 60U);
}

TEST_F(PoolKernels, CompileForAnH100) {
  for (const char* type : {"float32", "bfloat16"})
    for (const auto& c : pool_cases(type))
      for (const auto& p : kernels_of(c)) {
        const auto made = compile(p.source, "sm_90a");
        ASSERT_TRUE(made) << c.what.name << ": " << made.error().message;
        for (const auto& r : made->resources)
          EXPECT_EQ(r.spill_store_bytes, 0) << c.what.name << ": " << r.kernel;
      }
}

std::string source_of(const pool_text& text, const std::string& type = "float32", const std::string& tuning = "") {
  return lowered_for_cuda(pool_task(text, type), text.schedule + tuning).source;
}

TEST_F(PoolKernels, ReadRowsOfWindowsAsVectors) {
  constexpr pool_text aligned{"a", "2, 3, 8, 16", R"(y = max_pool2d {"self": "x", "kernel_size": 2})"};
  EXPECT_THAT(source_of(aligned), HasSubstr("*(const float2*)"));
  EXPECT_THAT(source_of(aligned, "float16"), HasSubstr("*(const unsigned*)"));
  constexpr pool_text odd{"a", "2, 3, 8, 15", R"(y = max_pool2d {"self": "x", "kernel_size": 2})"};
  EXPECT_THAT(source_of(odd), Not(HasSubstr("float2"))) << "rows are not aligned";
  constexpr pool_text dilated{"a", "2, 3, 8, 16",
                              R"(y = max_pool2d {"self": "x", "kernel_size": 2, "dilation": [1, 2]})"};
  EXPECT_THAT(source_of(dilated), Not(HasSubstr("float2"))) << "a window's elements are apart";
  constexpr pool_text padded{"a", "2, 3, 8, 16", R"(y = max_pool2d {"self": "x", "kernel_size": 2, "padding": 1})"};
  EXPECT_THAT(source_of(padded), Not(HasSubstr("float2"))) << "a window begins before the row";
}

// With many windows, a thread takes several that overlap, so that it reads their elements once.
TEST_F(PoolKernels, ReadWhatWindowsShareOnce) {
  constexpr pool_text large{"a", "16, 64, 64, 64",
                            R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 1, "padding": 1})"};
  EXPECT_THAT(source_of(large), HasSubstr("for (int r = 0; r < 6; ++r)")) << "four windows of three rows";
  constexpr pool_text small{"a", "1, 2, 8, 8",
                            R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 1, "padding": 1})"};
  EXPECT_THAT(source_of(small), Not(HasSubstr("int r = 0"))) << "there are too few windows";
  EXPECT_THAT(source_of(small, "float32", "; items(group=0, elements=2)"), HasSubstr("r < 4"));
}

// In both orders in memory, and with the pool as a library call.
TEST_F(PoolKernels, OfNetworksAreAcceptedByTheGates) {
  for (const char* type : {"float32", "float16", "bfloat16"}) {
    const std::string tensors = fmt::format(
        R"("inputs": [{{"name": "x", "dtype": "{0}", "shape": [2, 8, 9, 10]}}],
           "weights": [{{"name": "w", "dtype": "{0}", "shape": [16, 8, 3, 3]}}, {{"name": "b", "dtype": "{0}", "shape": [16, 1, 1]}},
                       {{"name": "s", "dtype": "{0}", "shape": [1, 16, 1, 1]}}])",
        type);
    const task t = task_of({"network", tensors.c_str(), R"(c = conv2d {"input": "x", "weight": "w", "padding": 1}
        a = add.Tensor {"self": "c", "other": "b"}
        r = relu {"self": "a"}
        p = max_pool2d {"self": "r", "kernel_size": 3, "stride": 2, "padding": 1}
        m = mul.Tensor {"self": "p", "other": "s"}
        y = sigmoid {"self": "m"})",
                            R"(["y"])"});
    judged_task gates(t);
    int with_library_pool = 0, with_own_pool = 0, with_vectors = 0;
    auto schedules = whole_schedules(t, for_cuda());
    schedules.push_back(parsed("fuse(steps=1..2); fuse(steps=4..5)"));
    for (const auto& s : schedules) {
      if (type == std::string("float32") && rounds_to_tf32(s)) continue;
      const program p = lowered_for_cuda(t, print_schedule(s));
      const bool library = calls_of(p).find("max_pool2d") != std::string::npos;
      (library ? with_library_pool : with_own_pool) += 1;
      with_vectors += p.source.find("_v_a[l]") != std::string::npos ? 1 : 0;
      EXPECT_EQ(gates.problem_of(p), "") << type << ": " << print_schedule(s) << "\n" << p.source;
    }
    EXPECT_GT(with_library_pool, 0);
    EXPECT_GT(with_own_pool, 1);
    EXPECT_GT(with_vectors, 0) << "of neighbouring channels";
  }
}

TEST_F(PoolKernels, AreRefusedWhereAKernelWouldBeWrongOrSlow) {
  const auto why = [](const pool_text& text) {
    const auto made = lower(pool_task(text), parsed(text.schedule), for_cuda());
    return made ? "accepted" : made.error().message;
  };
  EXPECT_THAT(why({"indices", "1, 2, 8, 8", R"(p i = max_pool2d_with_indices {"self": "x", "kernel_size": 2}
                                               y = neg {"self": "i"})"}),
              HasSubstr("whose indices are read"));
  EXPECT_THAT(why({"large", "1, 2, 40, 40", R"(y = max_pool2d {"self": "x", "kernel_size": 24})"}),
              HasSubstr("windows of 576 elements"));
  EXPECT_THAT(why({"large_convolution", "1, 2, 12, 12", R"(y = conv2d {"input": "x", "weight": "k", "groups": 2})",
                   "2, 1, 7, 7"}),
              HasSubstr("windows of 49 elements"));
  EXPECT_THAT(why({"in_padding", "1, 2, 6, 6", R"(y = conv2d {"input": "x", "weight": "k", "padding": 1, "groups": 2})",
                   "2, 1, 1, 1"}),
              HasSubstr("windows of one element"));
  EXPECT_THAT(
      why({"of_two_channels", "1, 4, 8, 8", R"(y = conv2d {"input": "x", "weight": "k", "groups": 2})", "4, 2, 3, 3"}),
      HasSubstr("cannot be part of a kernel"));
  EXPECT_THAT(
      why({"two_of_a_channel", "1, 2, 8, 8", R"(y = conv2d {"input": "x", "weight": "k", "groups": 2})", "4, 1, 3, 3"}),
      HasSubstr("cannot be part of a kernel"));
  EXPECT_THAT(why({"weights_of_the_same_kernel", "1, 1, 3, 3", R"(n = neg {"self": "x"}
                                                                  y = conv2d {"input": "x", "weight": "n"})",
                   "1", "row_kernel(steps=0..1)"}),
              HasSubstr("are not in memory"));
  const char* gelu = R"(g = gelu {"self": "x"}
                        y = max_pool2d {"self": "g", "kernel_size": 3, "stride": 1})";
  EXPECT_THAT(why({"gelu", "1, 2, 8, 8", gelu, "1", "row_kernel(steps=0..1)"}), HasSubstr("computed again"));
  EXPECT_THAT(why({"read", "1, 2, 8, 8", R"(r = relu {"self": "x"}
                                            y = max_pool2d {"self": "r", "kernel_size": 2})",
                   "1", "row_kernel(steps=0..1)", "1", R"(["y", "r"])"}),
              HasSubstr("read elsewhere"));
  EXPECT_THAT(why({"pool_of_pool", "1, 2, 8, 8",
                   R"(p = max_pool2d {"self": "x", "kernel_size": 3, "stride": 1, "padding": 1}
                      y = max_pool2d {"self": "p", "kernel_size": 3, "stride": 1, "padding": 1})",
                   "1", "row_kernel(steps=0..1)"}),
              HasSubstr("reduces other dimensions"));
  EXPECT_THAT(why({"in_front_and_behind", "1, 2, 8, 8",
                   R"(r = relu {"self": "x"}
                      p = max_pool2d {"self": "r", "kernel_size": 3, "stride": 1, "padding": 1}
                      y = add.Tensor {"self": "p", "other": "r"})",
                   "1", "row_kernel(steps=0..2)"}),
              HasSubstr("read elsewhere"));
  EXPECT_THAT(why({"other_windows", "1, 2, 8, 8", R"(p = max_pool2d {"self": "x", "kernel_size": 2}
                                                     a = avg_pool2d {"self": "x", "kernel_size": 3, "stride": 2, "padding": 1}
                                                     y = add.Tensor {"self": "p", "other": "a"})",
                   "1", "row_kernel(steps=0..2)"}),
              HasSubstr("reduce different dimensions"));
  const pool_text doubles{"doubles", "1, 2, 8, 8", R"(y = max_pool2d {"self": "x", "kernel_size": 2})"};
  const auto refused = lower(pool_task(doubles, "float64"), parsed(doubles.schedule), for_cuda());
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("float64"));
  EXPECT_THAT(refusal(pool_task(doubles), doubles.schedule), HasSubstr("pools are library calls on the CPU"));
}

}  // namespace
}  // namespace cudal1::test
