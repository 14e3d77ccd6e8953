// Convolutions on tensor cores by warpgroups: the gates accept them, with the instructions emulated on the host.
#include <array>
#include <set>
#include <utility>

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
  std::string arguments = "";      // of the convolution, behind its operands
  std::string behind = "";         // steps that read c, and make y; "": y is c
  std::string kernel_steps = "0";  // of the kernel
};

task task_of_case(const convolution_case& c, const std::string& type = "float32") {
  const auto spatial = std::ranges::count(c.input, ',') - 1;
  const std::string tensors = fmt::format(
      R"("inputs": [{{"name": "x", "dtype": "{0}", "shape": [{1}]}}],
         "weights": [{{"name": "w", "dtype": "{0}", "shape": [{2}], "draw": {{"distribution": "normal", "std": 0.1}}}},
                     {{"name": "b", "dtype": "{0}", "shape": [{3}]}}])",
      type, c.input, c.weight, c.weight.substr(0, c.weight.find(',')));
  const std::string steps = fmt::format(R"({} = conv{}d {{"input": "x", "weight": "w"{}}}
                                           {})",
                                        c.behind.empty() ? "y" : "c", spatial, c.arguments, c.behind);
  return task_of({c.name.c_str(), tensors.c_str(), steps.c_str(), R"(["y"])"});
}

std::vector<convolution_case> cases() {
  return {{"line", "2, 8, 150", "16, 8, 5", R"(, "padding": 2)"},
          {"plane", "2, 16, 11, 13", "16, 16, 3, 3", R"(, "bias": "b")", R"(y = relu {"self": "c"})", "0..1"},
          {"chunks", "1, 20, 19, 35", "40, 20, 3, 3", R"(, "padding": 1)"},
          {"few", "2, 3, 17, 18", "20, 3, 3, 3", R"(, "bias": "b")", R"(y = sigmoid {"self": "c"})", "0..1"},
          {"strided", "1, 8, 23, 41", "24, 8, 3, 5", R"(, "stride": [2, 3], "padding": [1, 2])"},
          {"dilated", "1, 8, 17, 19", "16, 8, 3, 3", R"(, "dilation": [3, 2], "padding": [2, 4])"},
          {"flat_plane", "1, 8, 3, 130", "16, 8, 2, 3"},
          {"groups", "1, 24, 10, 12", "48, 8, 3, 3", R"(, "groups": 3, "padding": 1)"},
          {"volume", "1, 8, 6, 9, 18", "70, 8, 3, 3, 3", R"(, "bias": "b", "padding": 1)"},
          {"strided_volume", "1, 9, 5, 9, 11", "16, 9, 2, 3, 3", R"(, "stride": 2, "dilation": [2, 1, 1])"},
          {"channels_of_a_place", "2, 8, 9, 10", "40, 8, 3, 3", R"(, "bias": "b")",
           R"(s = softmax.int {"self": "c", "dim": 1}
          y = sigmoid {"self": "s"})",
           "0..2"}};
}

class warpgroup_convolutions : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

// Half types have no rounding to TF32, and operands in two parts none that the gates see.
constexpr std::array<std::pair<const char*, const char*>, 2> exact_ones{
    {{"float32", ", factors=tf32_pairs"}, {"bfloat16", ""}}};

// The case's kernel, and others of it that differ.
std::vector<program> kernels_of(const task& t, const std::string& steps, const std::string& by) {
  std::vector<program> out;
  std::set<std::string> sources;
  for (const char* tuning :
       {"", "; items(group=0, elements=4)", "; block(group=0, threads=128); channels(group=0, channels=16)"}) {
    auto made = lower(t, parsed(fmt::format("tensor_core_convolution(steps={}{}){}", steps, by, tuning)), for_cuda());
    if (!made && *tuning != '\0') continue;
    if (!made) throw std::runtime_error(t.name + ": " + made.error().message);
    if (sources.insert(made->checked.text.source).second) out.push_back(std::move(made->checked.text));
  }
  return out;
}

TEST_F(warpgroup_convolutions, are_accepted_by_the_gates) {
  std::size_t several = 0;
  for (const auto& [type, by] : exact_ones)
    for (const auto& c : cases()) {
      const task t = task_of_case(c, type);
      judged_task gates(t);
      const auto programs = kernels_of(t, c.kernel_steps, by);
      several += programs.size() - 1;
      for (const auto& p : programs) {
        EXPECT_EQ(calls_of(p), "") << c.name;
        EXPECT_EQ(gates.problem_of(p), "") << c.name << ", " << type << ", " << by << "\n" << p.source;
      }
    }
  EXPECT_GT(several, 8U);
}

TEST_F(warpgroup_convolutions, compile_for_an_h100) {
  for (const auto& [type, by] : {std::pair{"float32", ""}, {"float32", ", factors=tf32_pairs"}, {"bfloat16", ""}})
    for (const auto& c : cases())
      for (const auto& p : kernels_of(task_of_case(c, type), c.kernel_steps, by)) {
        const auto made = compile(p.source, "sm_90a");
        ASSERT_TRUE(made) << c.name << ": " << made.error().message;
        for (const auto& r : made->resources)
          EXPECT_EQ(r.spill_store_bytes, 0) << c.name << ": " << r.kernel;
      }
}

// Of transposed convolutions each phase of the results is a convolution with some of the weights.
TEST_F(warpgroup_convolutions, make_transposed_ones) {
  struct transposed_case {
    const char *name, *input, *weight, *arguments;
  };
  const std::vector<transposed_case> all{
      {"line", "2, 8, 40", "8, 16, 4", R"("stride": 3, "padding": 1)"},
      {"plane", "1, 8, 9, 10", "8, 20, 3, 3", R"("padding": 1)"},
      {"phases", "1, 16, 9, 12", "16, 16, 3, 4", R"("stride": 2, "padding": [1, 2], "output_padding": 1)"},
      {"some_without_weights", "1, 8, 6, 7", "8, 16, 2, 3", R"("stride": [3, 2], "dilation": [1, 2])"},
      {"dilated", "1, 8, 7, 9", "8, 16, 3, 3", R"("stride": 3, "padding": 3, "dilation": 2)"},
      {"cut", "1, 10, 4, 6, 7", "10, 8, 3, 3, 3", R"("stride": 2, "padding": 3)"},
      {"volume", "1, 8, 4, 5, 6", "8, 12, 3, 3, 3",
       R"("stride": [2, 1, 2], "padding": 1, "output_padding": [1, 0, 1])"}};
  for (const auto& c : all) {
    const auto spatial = std::ranges::count(std::string(c.input), ',') - 1;
    const std::string tensors = fmt::format(
        R"("inputs": [{{"name": "x", "dtype": "float32", "shape": [{}]}}],
           "weights": [{{"name": "w", "dtype": "float32", "shape": [{}]}}])",
        c.input, c.weight);
    const std::string steps = fmt::format(
        R"(c = conv_transpose{}d{} {{"input": "x", "weight": "w", {}}}
           y = relu {{"self": "c"}})",
        spatial, spatial == 1 ? "" : ".input", c.arguments);
    const task t = task_of({c.name, tensors.c_str(), steps.c_str(), R"(["y"])"});
    judged_task gates(t);
    for (const auto& p : kernels_of(t, "0..1", ", factors=tf32_pairs")) {
      EXPECT_EQ(calls_of(p), "") << c.name;
      EXPECT_EQ(gates.problem_of(p), "") << c.name << "\n" << p.source;
    }
  }
}

// Whole schedules propose them, with the group that reads them.
TEST_F(warpgroup_convolutions, are_in_whole_schedules) {
  const std::string tensors = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 16, 5, 6, 7]}],
      "weights": [{"name": "w", "dtype": "float32", "shape": [16, 6, 3, 3, 3]}])";
  const task t = task_of({"whole", tensors.c_str(),
                          R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "stride": 2, "padding": 1}
                             y = sigmoid {"self": "c"})",
                          R"(["y"])"});
  int found = 0;
  for (const auto& s : whole_schedules(t, for_cuda()))
    found +=
        print_schedule(s).find("tensor_core_convolution(steps=0..1, factors=tf32_pairs)") == std::string::npos ? 0 : 1;
  EXPECT_GT(found, 0);
}

TEST_F(warpgroup_convolutions, refuse_what_they_do_not_compute) {
  const auto why = [](const convolution_case& c, const std::string& by, const char* type = "float32") {
    const auto made =
        lower(task_of_case(c, type), parsed(fmt::format("tensor_core_convolution(steps=0{})", by)), for_cuda());
    return made ? "" : made.error().message;
  };
  EXPECT_THAT(why({"one", "1, 1, 9, 9", "16, 1, 3, 3"}, ""), HasSubstr("multiply zeros"));
  EXPECT_THAT(why({"plane", "1, 8, 9, 9", "16, 8, 3, 3"}, ", factors=two"), HasSubstr("factors=two is not tf32_pairs"));
  EXPECT_THAT(why({"plane", "1, 8, 9, 9", "16, 8, 3, 3"}, ", factors=tf32_pairs", "bfloat16"), HasSubstr("half types"));
}

}  // namespace
}  // namespace cudal1::test
