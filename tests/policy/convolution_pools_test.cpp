// Pools in the kernels of the convolutions whose results they reduce.
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

struct pooled_case {
  const char *name, *input, *weight, *channels;
  const char* convolution;  // the step that makes c, without its name
  const char* behind;       // steps that read c, and make y
  const char* steps;        // of the kernel
};

task task_of_case(const pooled_case& c, const std::string& type = "float32") {
  const std::string input = c.input;
  const auto spatial = std::ranges::count(input, ',') - 1;
  const std::string tensors = fmt::format(
      R"("inputs": [{{"name": "x", "dtype": "{0}", "shape": [{1}]}}],
         "weights": [{{"name": "w", "dtype": "{0}", "shape": [{2}], "draw": {{"distribution": "normal", "std": 0.1}}}},
                     {{"name": "b", "dtype": "{0}", "shape": [{3}]}},
                     {{"name": "g", "dtype": "{0}", "shape": [{3}{4}]}}])",
      type, input, c.weight, c.channels,
      spatial == 1   ? ", 1"
      : spatial == 2 ? ", 1, 1"
                     : ", 1, 1, 1");
  const std::string steps = fmt::format("c = {}\n {}", c.convolution, c.behind);
  return task_of({c.name, tensors.c_str(), steps.c_str(), R"(["y"])"});
}

std::vector<pooled_case> cases() {
  return {
      {"plane", "2, 8, 21, 23", "16, 8, 3, 3", "16", R"(conv2d {"input": "x", "weight": "w", "bias": "b"})",
       R"(r = sub.Tensor {"self": "c", "other": "g"}
          p = max_pool2d {"self": "r", "kernel_size": 2}
          y = sigmoid {"self": "p"})",
       "0..3"},
      {"average", "1, 8, 18, 38", "20, 8, 3, 3", "20", R"(conv2d {"input": "x", "weight": "w", "padding": 1})",
       R"(t = tanh {"self": "c"}
          y = avg_pool2d {"self": "t", "kernel_size": [2, 4]})",
       "0..2"},
      {"line", "2, 8, 150", "16, 8, 5", "16", R"(conv1d {"input": "x", "weight": "w", "bias": "b"})",
       R"(y = max_pool1d {"self": "c", "kernel_size": 4})", "0..1"},
      {"volume", "1, 9, 6, 10, 19", "16, 9, 3, 3, 3", "16",
       R"(conv3d {"input": "x", "weight": "w", "bias": "b", "padding": 1})",
       R"(p = max_pool3d {"self": "c", "kernel_size": 2}
          y = relu {"self": "p"})",
       "0..2"},
      {"depth_by_three", "1, 8, 8, 9, 10", "16, 8, 3, 3, 3", "16",
       R"(conv3d {"input": "x", "weight": "w", "stride": [1, 2, 1]})",
       R"(y = avg_pool3d {"self": "c", "kernel_size": [3, 1, 2]})", "0..1"},
      {"groups", "1, 16, 10, 12", "32, 8, 3, 3", "32",
       R"(conv2d {"input": "x", "weight": "w", "groups": 2, "padding": 1})",
       R"(y = max_pool2d {"self": "c", "kernel_size": 2})", "0..1"},
      {"phases_of_plane", "2, 8, 9, 12", "8, 16, 4, 4", "16",
       R"(conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1})",
       R"(t = tanh {"self": "c"}
          y = max_pool2d {"self": "t", "kernel_size": 2})",
       "0..2"},
      {"phases_of_volume", "1, 4, 4, 5, 6", "4, 16, 3, 3, 3", "16",
       R"(conv_transpose3d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": 1})",
       R"(p = max_pool3d {"self": "c", "kernel_size": 2}
          y = mul.Tensor {"self": "p", "other": "g"})",
       "0..2"},
      {"some_phases", "1, 8, 4, 9, 6", "8, 12, 3, 3, 3", "12",
       R"(conv_transpose3d.input {"input": "x", "weight": "w", "stride": [2, 1, 2], "padding": 1})",
       R"(y = avg_pool3d {"self": "c", "kernel_size": [2, 2, 4]})", "0..1"}};
}

constexpr const char *k_plain = "convolution_kernel(steps={})",
                     *k_on_tensor_cores = "tensor_core_convolution(steps={})",
                     *k_in_pairs = "tensor_core_convolution(steps={}, factors=tf32_pairs)";

// The kernels of these forms, and where `tuned` with other tiles where they differ. Transposed convolutions have no
// plain ones.
std::vector<program> kernels_of(const task& t, const pooled_case& c, const std::vector<const char*>& forms,
                                bool tuned) {
  std::vector<program> out;
  std::set<std::string> sources;
  for (const char* form : forms)
    for (const char* tuning :
         {"", "; block(group=0, threads=128); channels(group=0, channels=16)", "; items(group=0, elements=4)"}) {
      if (form == k_plain && std::string(c.convolution).starts_with("conv_t")) continue;
      if (!tuned && *tuning != '\0') continue;
      auto made = lower(t, parsed(fmt::format(fmt::runtime(form), c.steps) + tuning), for_cuda());
      if (!made && *tuning != '\0') continue;
      if (!made) throw std::runtime_error(t.name + ": " + form + ": " + made.error().message);
      if (sources.insert(made->checked.text.source).second) out.push_back(std::move(made->checked.text));
    }
  return out;
}

class convolution_pools : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

TEST_F(convolution_pools, are_accepted_by_the_gates) {
  const auto accept = [](const pooled_case& c, const std::string& type, const char* on_tensor_cores, bool tuned) {
    const task t = task_of_case(c, type);
    judged_task gates(t);
    for (const auto& p : kernels_of(t, c, {k_plain, on_tensor_cores}, tuned)) {
      EXPECT_EQ(calls_of(p), "") << c.name;
      EXPECT_EQ(gates.problem_of(p), "") << c.name << ", " << type << "\n" << p.source;
    }
  };
  for (const auto& c : cases())
    accept(c, "float32", k_in_pairs, std::string(c.name) == "average");
  for (const auto& c : cases())
    if (std::string(c.name) == "plane") accept(c, "bfloat16", k_on_tensor_cores, false);
}

TEST_F(convolution_pools, compile_for_an_h100) {
  for (const auto& c : cases())
    for (const auto& p : kernels_of(task_of_case(c), c, {k_plain, k_in_pairs}, false)) {
      const auto made = compile(p.source, "sm_90a");
      ASSERT_TRUE(made) << c.name << ": " << made.error().message;
      for (const auto& r : made->resources)
        EXPECT_EQ(r.spill_store_bytes, 0) << c.name << ": " << r.kernel;
    }
}

// Whole schedules propose them; what follows the pool and is no elementwise operator is another kernel.
TEST_F(convolution_pools, are_in_whole_schedules) {
  const task t = task_of_case(
      {"network", "1, 8, 4, 5, 6", "8, 16, 3, 3, 3", "16",
       R"(conv_transpose3d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": 1})",
       R"(p = max_pool3d {"self": "c", "kernel_size": 2}
          s = softmax.int {"self": "p", "dim": 1}
          y = sigmoid {"self": "s"})",
       ""});
  judged_task gates(t);
  int found = 0;
  for (const auto& s : whole_schedules(t, for_cuda())) {
    const std::string text = print_schedule(s);
    if (text.find("factors=tf32_pairs") == std::string::npos) continue;
    const program p = lowered_for_cuda(t, text);
    if (p.source.find("pooled0") == std::string::npos) continue;
    ++found;
    EXPECT_EQ(gates.problem_of(p), "") << text << "\n" << p.source;
  }
  EXPECT_GT(found, 0);
}

TEST_F(convolution_pools, are_refused_where_windows_are_not_in_a_tile) {
  const auto why = [](const char* convolution, const char* behind, const char* steps) {
    const task t = task_of_case({"refused", "1, 8, 12, 14", "8, 8, 3, 3", "8", convolution, behind, ""});
    const auto made =
        lower(t, parsed(fmt::format("tensor_core_convolution(steps={}, factors=tf32_pairs)", steps)), for_cuda());
    return made ? "accepted" : made.error().message;
  };
  const char *const plain = R"(conv2d {"input": "x", "weight": "w"})",
                    *const spread = R"(conv_transpose2d.input {"input": "x", "weight": "w", "stride": 2})";
  EXPECT_THAT(why(plain, R"(y = max_pool2d {"self": "c", "kernel_size": 3, "stride": 2})", "0..1"),
              HasSubstr("overlap"));
  EXPECT_THAT(why(plain, R"(y = max_pool2d {"self": "c", "kernel_size": 2, "padding": 1})", "0..1"),
              HasSubstr("overlap, or have padding"));
  EXPECT_THAT(why(plain, R"(y = max_pool2d {"self": "c", "kernel_size": [2, 5]})", "0..1"), HasSubstr("no tile"));
  EXPECT_THAT(why(spread, R"(y = max_pool2d {"self": "c", "kernel_size": 3})", "0..1"),
              HasSubstr("no windows of the pool"));
}

}  // namespace
}  // namespace cudal1::test
