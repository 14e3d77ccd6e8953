// Convolutions over all channels as kernels of our own: the gates accept them, with CUDA's kernels compiled for the
// host, and what must stay a library call does.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

struct convolution_case {
  std::string name, input, weight;
  std::string arguments = {};      // of the convolution, behind its operands
  std::string behind = {};         // steps that read c, and make y; "": y is c
  std::string kernel_steps = "0";  // of the kernel
  std::string outputs = R"(["y"])";
};

// `strides` of the input: "" for the usual ones.
task task_of_case(const convolution_case& c, const std::string& type = "float32", const std::string& strides = "") {
  const auto spatial = std::ranges::count(c.input, ',') - 1;
  const std::string tensors = fmt::format(
      R"("inputs": [{{"name": "x", "dtype": "{0}", "shape": [{1}]{2}}}],
         "weights": [{{"name": "w", "dtype": "{0}", "shape": [{3}]}}, {{"name": "b", "dtype": "{0}", "shape": [{4}]}},
                     {{"name": "g", "dtype": "{0}", "shape": [{4}{5}]}}])",
      type, c.input, strides, c.weight, c.weight.substr(0, c.weight.find(',')),
      spatial == 1   ? ", 1"
      : spatial == 2 ? ", 1, 1"
                     : ", 1, 1, 1");
  const std::string steps = fmt::format(R"({} = conv{}d {{"input": "x", "weight": "w"{}}}
                                           {})",
                                        c.behind.empty() ? "y" : "c", spatial, c.arguments, c.behind);
  return task_of({c.name.c_str(), tensors.c_str(), steps.c_str(), c.outputs.c_str()});
}

std::vector<convolution_case> cases() {
  return {
      {"line", "2, 3, 70", "8, 3, 5"},
      {"long_line", "1, 2, 150", "4, 2, 3", R"(, "bias": "b", "padding": 2, "dilation": 2)"},
      {"plane", "2, 3, 11, 13", "16, 3, 3, 3", R"(, "bias": "b")",
       R"(r = relu {"self": "c"}
              y = mul.Tensor {"self": "r", "other": "g"})",
       "0..2"},
      {"wide_plane", "1, 3, 9, 140", "20, 3, 3, 3", R"(, "padding": 1)", R"(y = sigmoid {"self": "c"})", "0..1"},
      {"one_channel", "2, 1, 12, 9", "5, 1, 3, 2", R"(, "stride": [2, 1], "padding": [1, 0])"},
      {"to_one_channel", "2, 4, 8, 9", "1, 4, 3, 3", R"(, "bias": "b", "padding": 1)"},
      {"strided", "2, 3, 23, 21", "16, 3, 7, 7", R"(, "stride": 2, "padding": 3)"},
      {"dilated", "2, 2, 17, 19", "12, 2, 3, 3", R"(, "dilation": [3, 2], "padding": [2, 4])"},
      {"one_place", "3, 4, 3, 3", "8, 4, 3, 3", R"(, "bias": "b")"},
      {"one_element", "2, 3, 10, 12", "64, 3, 1, 1", R"(, "bias": "b", "stride": [1, 2])"},
      {"volume", "2, 3, 6, 9, 10", "16, 3, 3, 3, 3", R"(, "bias": "b")",
       R"(r = relu {"self": "c"}
              y = leaky_relu {"self": "r", "negative_slope": 0.01})",
       "0..2"},
      {"padded_volume", "1, 3, 5, 7, 35", "10, 3, 3, 3, 3", R"(, "padding": 1, "stride": [2, 1, 1])"},
      {"flat_volume", "1, 2, 4, 6, 8", "6, 2, 3, 3, 1", R"(, "dilation": [1, 2, 1])"},
      {"turns_of_channels", "2100, 1, 3, 4", "35, 1, 3, 3", R"(, "bias": "b")", R"(y = relu {"self": "c"})", "0..1"},
      {"read_elsewhere", "2, 3, 9, 9", "8, 3, 3, 3", R"(, "bias": "b")",
       R"(a = tanh {"self": "c"}
              y = add.Tensor {"self": "a", "other": "c"})",
       "0..2", R"(["y", "c"])"}};
}

class convolution_kernels : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

// The case's kernel, and others of it that differ.
std::vector<program> kernels_of(const task& t, const std::string& steps) {
  std::vector<program> out;
  std::set<std::string> sources;
  for (const char* tuning :
       {"", "; items(group=0, elements=8)", "; block(group=0, threads=64); items(group=0, elements=1)"}) {
    auto made = lower(t, parsed(fmt::format("convolution_kernel(steps={}){}", steps, tuning)), for_cuda());
    if (!made && *tuning != '\0') continue;
    if (!made) throw std::runtime_error(t.name + ": " + made.error().message);
    if (sources.insert(made->checked.text.source).second) out.push_back(std::move(made->checked.text));
  }
  return out;
}

TEST_F(convolution_kernels, are_accepted_by_the_gates) {
  std::size_t several = 0;
  for (const char* type : {"float32", "bfloat16"})
    for (const auto& c : cases()) {
      const task t = task_of_case(c, type);
      judged_task gates(t);
      const auto programs = kernels_of(t, c.kernel_steps);
      several += programs.size() - 1;
      for (const auto& p : programs) {
        EXPECT_EQ(calls_of(p), "") << c.name;
        EXPECT_EQ(gates.problem_of(p), "") << c.name << ", " << type << "\n" << p.source;
      }
    }
  EXPECT_GT(several, 20U);
}

TEST_F(convolution_kernels, read_and_write_other_orders_in_memory) {
  const convolution_case c{
      "last", "2, 3, 9, 10", "16, 3, 3, 3", R"(, "bias": "b", "padding": 1)", R"(y = relu {"self": "c"})", "0..1"};
  const task t = task_of_case(c, "float32", R"(, "strides": [270, 1, 30, 3])");
  judged_task gates(t);
  for (const auto& p : kernels_of(t, c.kernel_steps))
    EXPECT_EQ(gates.problem_of(p), "") << p.source;
}

// Whole schedules propose them, with what was rewritten before.
TEST_F(convolution_kernels, of_whole_schedules_are_accepted_by_the_gates) {
  const std::string tensors = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 5, 6, 7]}],
      "weights": [{"name": "w", "dtype": "float32", "shape": [3, 8, 3, 3, 3]}, {"name": "v", "dtype": "float32", "shape": [4, 8, 3, 3, 3]}])";
  const task t = task_of(
      {"network", tensors.c_str(),
       R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "stride": 2, "padding": 1, "output_padding": 1}
        r = relu {"self": "c"}
        d = conv3d {"input": "r", "weight": "v"}
        s = softmax.int {"self": "d", "dim": 1}
        y = sigmoid {"self": "s"})",
       R"(["y"])"});
  judged_task gates(t);
  int found = 0, of_phases = 0;
  for (const auto& s : whole_schedules(t, for_cuda())) {
    const std::string text = print_schedule(s);
    if (text.find("convolution_kernel") == std::string::npos) continue;
    ++found;
    of_phases += text.find("convolve_phases") != std::string::npos ? 1 : 0;
    const program p = lowered_for_cuda(t, text);
    EXPECT_EQ(gates.problem_of(p), "") << text << "\n" << p.source;
  }
  EXPECT_GT(found, 1);
  EXPECT_GT(of_phases, 0);
}

TEST_F(convolution_kernels, compile_for_an_h100) {
  for (const char* type : {"float32", "bfloat16"})
    for (const auto& c : cases())
      for (const auto& p : kernels_of(task_of_case(c, type), c.kernel_steps)) {
        const auto made = compile(p.source, "sm_90a");
        ASSERT_TRUE(made) << c.name << ": " << made.error().message;
        for (const auto& r : made->resources)
          EXPECT_EQ(r.spill_store_bytes, 0) << c.name << ": " << r.kernel;
      }
}

TEST_F(convolution_kernels, are_refused_where_they_would_be_wrong_or_slow) {
  const auto why = [](const convolution_case& c, const std::string& type = "float32") {
    const auto made =
        lower(task_of_case(c, type), parsed(fmt::format("convolution_kernel(steps={})", c.kernel_steps)), for_cuda());
    return made ? "accepted" : made.error().message;
  };
  EXPECT_THAT(why({"channels_alone", "1, 4, 8, 8", "4, 1, 3, 3", R"(, "groups": 4)"}),
              HasSubstr("no convolution that adds up"));
  EXPECT_THAT(why({"doubles", "1, 4, 8, 8", "4, 4, 3, 3"}, "float64"), HasSubstr("of float64 stays a library call"));
  EXPECT_THAT(why({"many_channels", "1, 64, 20, 20", "64, 64, 3, 3"}), HasSubstr("bytes of shared memory"));
  EXPECT_THAT(why({"padded_elements", "1, 4, 8, 8", "4, 4, 1, 1", R"(, "padding": 1)"}),
              HasSubstr("windows of one element"));
  EXPECT_THAT(why({"sum", "1, 3, 8, 8", "40, 3, 3, 3", "", R"(y = sum.dim_IntList {"self": "c", "dim": [1]})", "0..1"}),
              HasSubstr("40 channels are more than the 32"));
  EXPECT_THAT(why({"rows", "1, 3, 8, 8", "4, 3, 3, 3", "", R"(y = sum.dim_IntList {"self": "c", "dim": [3]})", "0..1"}),
              HasSubstr("reduces its channels, or all of its places"));
  EXPECT_THAT(
      why({"pool", "1, 3, 8, 8", "4, 3, 3, 3", "", R"(y = max_pool2d {"self": "c", "kernel_size": 3})", "0..1"}),
      HasSubstr("no whole window of the pool"));
}

}  // namespace
}  // namespace cudal1::test
