// Convolutions whose places are reduced: means, sums and the statistics of norms as partial results of the
// convolution's kernel, which later ones add up.
#include <algorithm>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"
#include "tests/policy/rewritten_programs.hpp"
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

struct reduced_case {
  const char *name, *input, *weight;
  const char* convolution;  // the step that makes c, without its name
  const char* behind;       // steps that read c
  const char* steps;        // of the kernel
  const char* outputs = R"(["y"])";
};

task task_of_case(const reduced_case& c, const std::string& type = "float32") {
  const std::string weight = c.weight,
                    channels = std::string(c.convolution).starts_with("conv_t")
                                   ? weight.substr(weight.find(',') + 1,
                                                   weight.find(',', weight.find(',') + 1) - weight.find(',') - 1)
                                   : weight.substr(0, weight.find(','));
  const std::string tensors = fmt::format(
      R"("inputs": [{{"name": "x", "dtype": "{0}", "shape": [{1}]}}],
         "weights": [{{"name": "w", "dtype": "{0}", "shape": [{2}], "draw": {{"distribution": "normal", "std": 0.1}}}},
                     {{"name": "b", "dtype": "{0}", "shape": [{3}]}}, {{"name": "g", "dtype": "{0}", "shape": [{3}]}}])",
      type, c.input, weight, channels);
  const std::string steps = fmt::format("c = {}\n {}", c.convolution, c.behind);
  return task_of({c.name, tensors.c_str(), steps.c_str(), c.outputs});
}

std::vector<reduced_case> cases() {
  return {
      {"mean", "2, 8, 19, 21", "12, 8, 3, 3", R"(conv2d {"input": "x", "weight": "w", "bias": "b"})",
       R"(r = relu {"self": "c"}
          m = mean.dim {"self": "r", "dim": [2, 3]}
          y = sigmoid {"self": "m"})",
       "0..3"},
      {"pool", "2, 3, 40, 9", "20, 3, 3, 3", R"(conv2d {"input": "x", "weight": "w", "padding": 1})",
       R"(y = adaptive_avg_pool2d {"self": "c", "output_size": [1, 1]})", "0..1"},
      {"line", "3, 4, 150", "5, 4, 3", R"(conv1d {"input": "x", "weight": "w"})",
       R"(y = amax {"self": "c", "dim": [2]})", "0..1"},
      {"image", "3, 3, 12, 13", "16, 3, 3, 3", R"(conv2d {"input": "x", "weight": "w", "bias": "b", "stride": 2})",
       R"(s = sigmoid {"self": "c"}
          y = sum.dim_IntList {"self": "s", "dim": [1, 2, 3]})",
       "0..2"},
      {"instance_norm", "2, 3, 6, 9, 11", "8, 3, 3, 3, 3", R"(conv3d {"input": "x", "weight": "w", "bias": "b"})",
       R"(n = instance_norm {"input": "c", "weight": null, "bias": null, "running_mean": null, "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          y = relu {"self": "n"})",
       "0..2"},
      {"group_norm", "2, 16, 17, 18", "24, 16, 3, 3", R"(conv2d {"input": "x", "weight": "w", "bias": "b"})",
       R"(t = tanh {"self": "c"}
          y = group_norm {"input": "t", "num_groups": 4, "weight": "g", "bias": "b", "eps": 0.00001})",
       "0..2"},
      {"batch_norm", "3, 8, 11, 12", "16, 8, 3, 3",
       R"(conv2d {"input": "x", "weight": "w", "bias": "b", "padding": 1})",
       R"(n = batch_norm {"input": "c", "weight": "g", "bias": "b", "running_mean": null, "running_var": null, "training": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          y = tanh {"self": "n"})",
       "0..2"},
      {"far_from_zero", "2, 4, 20, 21", "8, 4, 3, 3", R"(conv2d {"input": "x", "weight": "w"})",
       R"(f = add.Scalar {"self": "c", "other": 3000.0}
          y = var.correction {"self": "f", "dim": [2, 3], "correction": 1})",
       "0..2"},
      {"odd_phases", "2, 8, 3, 4, 5", "8, 16, 3, 3, 3",
       R"(conv_transpose3d.input {"input": "x", "weight": "w", "stride": 2, "padding": 1})",
       R"(n = batch_norm {"input": "c", "weight": "g", "bias": "b", "running_mean": null, "running_var": null, "training": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          y = relu {"self": "n"})",
       "0..2"},
      {"read_elsewhere", "2, 8, 9, 30", "16, 8, 3, 3", R"(conv2d {"input": "x", "weight": "w", "padding": 1})",
       R"(t = sigmoid {"self": "c"}
          y = mean.dim {"self": "t", "dim": [2, 3], "keepdim": true}
          z = mul.Tensor {"self": "t", "other": "y"})",
       "0..3", R"(["y", "t", "z"])"}};
}

class convolution_sums : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

// The kernels of both forms, and where `tuned` others of them that differ.
std::vector<program> kernels_of(const task& t, const reduced_case& c, const std::string& type, bool tuned) {
  std::vector<program> out;
  std::set<std::string> sources;
  for (const std::string name : {"convolution_kernel", "tensor_core_convolution"})
    for (const char* tuning : {"", "; items(group=0, elements=4)", "; block(group=0, threads=64)"}) {
      const bool pairs = name == "tensor_core_convolution" && type == "float32";
      const auto text = fmt::format("{}(steps={}{}){}", name, c.steps, pairs ? ", factors=tf32_pairs" : "", tuning);
      const bool is_transposed = std::string(c.convolution).starts_with("conv_t");
      if ((!tuned && *tuning != '\0') || (is_transposed && name == "convolution_kernel")) continue;
      auto made = lower(t, parsed(text), for_cuda());
      if (!made && *tuning != '\0') continue;
      if (!made) throw std::runtime_error(t.name + ": " + text + ": " + made.error().message);
      if (sources.insert(made->checked.text.source).second) out.push_back(std::move(made->checked.text));
    }
  return out;
}

TEST_F(convolution_sums, are_accepted_by_the_gates) {
  const auto accept = [](const reduced_case& c, const std::string& type, bool tuned) {
    const task t = task_of_case(c, type);
    judged_task gates(t);
    for (const auto& p : kernels_of(t, c, type, tuned)) {
      EXPECT_EQ(calls_of(p), "") << c.name;
      EXPECT_EQ(gates.problem_of(p), "") << c.name << ", " << type << "\n" << p.source;
    }
  };
  for (const auto& c : cases())
    accept(c, "float32", std::string(c.name) == "mean");
  for (const auto& c : cases())
    if (std::string(c.name) == "group_norm") accept(c, "bfloat16", false);
}

TEST_F(convolution_sums, compile_for_an_h100) {
  for (const auto& c : cases())
    for (const auto& p : kernels_of(task_of_case(c), c, "float32", false)) {
      const auto made = compile(p.source, "sm_90a");
      ASSERT_TRUE(made) << c.name << ": " << made.error().message;
      for (const auto& r : made->resources)
        EXPECT_EQ(r.spill_store_bytes, 0) << c.name << ": " << r.kernel;
    }
}

// Norms whose statistics are steps of their own: the convolution's kernel makes parts of them, and the rest is in the
// kernel of what follows.
TEST_F(convolution_sums, are_of_norms_in_whole_schedules) {
  const std::vector<reduced_case> norms = {
      {"instance", "2, 8, 5, 6, 7", "8, 8, 3, 3, 3", R"(conv3d {"input": "x", "weight": "w", "bias": "b"})",
       R"(r = relu {"self": "c"}
          n = instance_norm {"input": "r", "weight": null, "bias": null, "running_mean": null, "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          k = clamp {"self": "n", "min": -1.0, "max": 1.0}
          y = amax {"self": "k", "dim": [1]})",
       ""},
      {"batch", "2, 8, 9, 10", "8, 16, 4, 4",
       R"(conv_transpose2d.input {"input": "x", "weight": "w", "stride": 2, "padding": 1})",
       R"(n = batch_norm {"input": "c", "weight": "g", "bias": null, "running_mean": null, "running_var": null, "training": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          t = tanh {"self": "n"}
          y = max_pool2d {"self": "t", "kernel_size": 2})",
       ""},
      {"group", "2, 3, 12, 13", "12, 3, 3, 3", R"(conv2d {"input": "x", "weight": "w", "bias": "b"})",
       R"(n = group_norm {"input": "c", "num_groups": 4, "weight": "g", "bias": "b"}
          p = max_pool2d {"self": "n", "kernel_size": 2}
          y = clamp {"self": "p", "min": 0.0, "max": 1.0})",
       ""}};
  proof_checks proofs;
  for (const auto& c : norms) {
    const task t = task_of_case(c);
    judged_task gates(t);
    int found = 0;
    for (const auto& s : whole_schedules(t, for_cuda())) {
      if (!has_move(s, "separate_statistics") || rounds_to_tf32(s)) continue;
      ++found;
      const std::string text = expect_accepted(gates, proofs, t, s, for_cuda());
      EXPECT_THAT(text, testing::Not(HasSubstr("aten::var"))) << print_schedule(s);
    }
    EXPECT_GT(found, 0) << c.name;
  }
}

// A short norm's own kernel reads its rows once; a softmax over channels stays with its convolution.
TEST_F(convolution_sums, leave_short_norms_apart_in_whole_schedules) {
  const auto count = [](const char* behind, const char* wanted) {
    const task t =
        task_of_case({"apart", "2, 3, 9, 10", "8, 3, 3, 3", R"(conv2d {"input": "x", "weight": "w"})", behind, ""});
    return std::ranges::count_if(whole_schedules(t, for_cuda()), [&](const schedule& s) {
      return print_schedule(s).find(wanted) != std::string::npos && !has_move(s, "separate_statistics");
    });
  };
  const char *const
      norm =
          R"(y = instance_norm {"input": "c", "weight": null, "bias": null, "running_mean": null, "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true})",
      *const softmax = R"(y = softmax.int {"self": "c", "dim": 1})", *const together = "convolution_kernel(steps=0..1)",
      *const apart = "convolution_kernel(steps=0)";
  EXPECT_GT(count(softmax, together), 0);
  EXPECT_GT(count(norm, apart), 0);
  EXPECT_EQ(count(norm, together), 0);
}

TEST_F(convolution_sums, are_refused_where_they_would_be_wrong) {
  const auto why = [](const char* behind, const char* schedule, const char* type = "float32") {
    const task t = task_of_case(
        {"refused", "2, 4, 9, 10", "8, 4, 3, 3", R"(conv2d {"input": "x", "weight": "w"})", behind, ""}, type);
    const auto made = lower(t, parsed(schedule), for_cuda());
    return made ? "accepted" : made.error().message;
  };
  const char* const norm =
      R"(y = instance_norm {"input": "c", "weight": null, "bias": null, "running_mean": null, "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true})";
  EXPECT_THAT(why(R"(y = mean.dim {"self": "c", "dim": [3]})", "convolution_kernel(steps=0..1)"),
              HasSubstr("reduces its channels, or all of its places"));
  EXPECT_THAT(why(R"(f = flatten.using_ints {"self": "c", "start_dim": 2}
                     s = softmax.int {"self": "f", "dim": 2}
                     y = sum.dim_IntList {"self": "s", "dim": [2]})",
                  "convolution_kernel(steps=0..3)"),
              testing::Not("accepted"));
  EXPECT_THAT(why(norm, "separate_statistics(steps=1)", "bfloat16"), HasSubstr("rounded to a half type"));
  EXPECT_THAT(why(norm, "separate_statistics(steps=0)"), HasSubstr("no batch norm in training mode"));
}

}  // namespace
}  // namespace cudal1::test
