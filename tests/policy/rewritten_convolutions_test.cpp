// Convolutions in place of transposed ones and before means: their proofs hold, and the gates accept every program.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "policy/moves/proof_checks.hpp"
#include "policy/search/assembly.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/known_parts_of_tests.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"
#include "tests/policy/rewritten_programs.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

std::vector<task> transposed_networks() {
  std::vector<task> out;
  for (const auto& each : std::vector<network>{
           {"line", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 9]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [3, 5, 4]}])",
            R"(y = conv_transpose1d {"input": "x", "weight": "w"})", R"(["y"])"},
           {"image", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7, 6]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [4, 8, 3, 5]}, {"name": "b", "dtype": "float32", "shape": [8]}])",
            R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "padding": [1, 2]}
               y = relu {"self": "c"})",
            R"(["y"])"},
           {"grouped", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 6, 7, 7]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [6, 2, 3, 2]}, {"name": "b", "dtype": "float32", "shape": [4]}])",
            R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "groups": 2}
               y = tanh {"self": "c"})",
            R"(["y"])"},
           {"volume", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4, 4, 5, 6]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3, 3, 2]}])",
            R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "padding": 1, "dilation": [1, 2, 3]}
               y = sigmoid {"self": "c"})",
            R"(["y"])"},
           {"two", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 6, 6]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [4, 8, 3, 3]}, {"name": "v", "dtype": "float32", "shape": [8, 4, 3, 3]}])",
            R"(c = conv_transpose2d.input {"input": "x", "weight": "w"}
               d = conv_transpose2d.input {"input": "c", "weight": "v", "padding": 2}
               y = add.Tensor {"self": "x", "other": "d"})",
            R"(["y", "c"])"}})
    out.push_back(task_of(each));
  return out;
}

std::vector<task> averaged_networks() {
  const char* const image = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 11, 10]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [8, 4, 3, 5]}, {"name": "b", "dtype": "float32", "shape": [8]},
                          {"name": "g", "dtype": "float32", "shape": [8, 1, 1]}, {"name": "mean", "dtype": "float32", "shape": [8]},
                          {"name": "variance", "dtype": "float32", "shape": [8], "draw": {"distribution": "uniform", "low": 0.5, "high": 2, "min": 0.01}, "facts": ["non_negative"]}])";
  const char* const spread = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 6, 5]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [4, 8, 3, 4]}, {"name": "b", "dtype": "float32", "shape": [8]},
                          {"name": "g", "dtype": "float32", "shape": [1, 8, 1, 1]}])";
  std::vector<task> out;
  for (
      const auto& each : std::vector<network>{
          {"pooled", image,
           R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "padding": [1, 2]}
               y = avg_pool2d {"self": "c", "kernel_size": [3, 2]})",
           R"(["y"])"},
          {"pooled_by_steps", image,
           R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "stride": [2, 1]}
               d = mul.Tensor {"self": "c", "other": "g"}
               e = add.Scalar {"self": "d", "other": 0.5}
               f = avg_pool2d {"self": "e", "kernel_size": 2, "stride": 1}
               y = sigmoid {"self": "f"})",
           R"(["y"])"},
          {"mean_of_space", image,
           R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "padding": [1, 2]}
               y = mean.dim {"self": "c", "dim": [2, 3]})",
           R"(["y"])"},
          {"mean_of_valid", image,
           R"(c = conv2d {"input": "x", "weight": "w"}
               d = mul.Scalar {"self": "c", "other": -2.0}
               m = adaptive_avg_pool2d {"self": "d", "output_size": [1, 1]}
               y = tanh {"self": "m"})",
           R"(["y"])"},
          {"pooled_norm", image,
           R"(c = conv2d {"input": "x", "weight": "w", "padding": [1, 2]}
               n = batch_norm {"input": "c", "weight": "b", "bias": null, "running_mean": "mean", "running_var": "variance", "training": false, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": true}
               p = avg_pool2d {"self": "n", "kernel_size": 2}
               y = tanh {"self": "p"})",
           R"(["y"])"},
          {"mean_of_norm", image,
           R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "padding": [1, 2]}
               n s t = _native_batch_norm_legit_no_training {"input": "c", "weight": null, "bias": "b", "running_mean": "mean", "running_var": "variance", "momentum": 0.1, "eps": 1e-5}
               d = mul.Tensor {"self": "n", "other": "g"}
               y = mean.dim {"self": "d", "dim": [2, 3]})",
           R"(["y"])"},
          {"mean_of_dilated", image,
           R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "padding": [2, 4], "dilation": [2, 2]}
               y = mean.dim {"self": "c", "dim": [-1, -2], "keepdim": true})",
           R"(["y"])"},
          {"mean_of_transposed", spread,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": [1, 0]}
               d = sub.Tensor {"self": "c", "other": "g"}
               y = mean.dim {"self": "d", "dim": [2, 3], "keepdim": true})",
           R"(["y"])"},
          {"mean_of_uncut", spread,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": [2, 3]}
               d = mul.Scalar {"self": "c", "other": 3.0}
               m = mean.dim {"self": "d", "dim": [2, 3], "keepdim": true}
               n = mean.dim {"self": "m", "dim": [2, 3]}
               y = logsumexp {"self": "n", "dim": [1]})",
           R"(["y"])"},
          {"mean_of_volume", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 4, 5, 6]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [3, 4, 3, 3, 2]}])",
           R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "stride": 2, "padding": [1, 0, 1]}
               y = mean.dim {"self": "c", "dim": [2, 3, 4]})",
           R"(["y"])"},
          {"mean_of_channels", image,
           R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "stride": 2}
               m = mean.dim {"self": "c", "dim": [1], "keepdim": true}
               y = tanh {"self": "m"})",
           R"(["y"])"},
          {"sum_of_channels", spread,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2}
               y = sum.dim_IntList {"self": "c", "dim": [1]})",
           R"(["y"])"}})
    out.push_back(task_of(each));
  return out;
}

std::vector<task> phased_networks() {
  const char* const image = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 6, 5]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [4, 8, 3, 3]}, {"name": "v", "dtype": "float32", "shape": [4, 8, 4, 4]},
                          {"name": "b", "dtype": "float32", "shape": [8]}, {"name": "m", "dtype": "float32", "shape": [8]},
                          {"name": "r", "dtype": "float32", "shape": [8], "draw": {"distribution": "uniform", "low": 0.5, "high": 1.5}}, {"name": "u", "dtype": "float32", "shape": [8, 4, 2, 2]}])";
  const char* const volume = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 3, 4, 2]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [3, 4, 3, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [4]},
                          {"name": "g", "dtype": "float32", "shape": [4]}])";
  std::vector<task> out;
  for (
      const auto& each : std::vector<network>{
          {"shifted_line", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 9]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [3, 5, 4]}])",
           R"(c = conv_transpose1d {"input": "x", "weight": "w", "stride": 2, "padding": 1}
              y = tanh {"self": "c"})",
           R"(["y"])"},
          {"doubled", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": 1}
              d = relu {"self": "c"}
              y = sigmoid {"self": "d"})",
           R"(["y"])"},
          {"shifted", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "v", "bias": "b", "stride": 2, "padding": 1}
              y = softmax.int {"self": "c", "dim": 1})",
           R"(["y"])"},
          {"cut", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": [2, 3], "padding": 1}
              y = gelu {"self": "c"})",
           R"(["y", "c"])"},
          {"cut_alone", image,
           R"(y = conv_transpose2d.input {"input": "x", "weight": "v", "stride": 3, "padding": [2, 1]})", R"(["y"])"},
          {"normalised", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "v", "bias": "b", "stride": 2}
              n = batch_norm {"input": "c", "weight": "m", "bias": "b", "running_mean": "m", "running_var": "r", "training": false, "momentum": 0.1, "eps": 1e-05, "cudnn_enabled": true}
              t = mean.dim {"self": "n", "dim": [2, 3], "keepdim": true}
              y = sub.Tensor {"self": "n", "other": "t"})",
           R"(["y"])"},
          {"by_groups_of_channels", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": 1}
              n = group_norm {"input": "c", "num_groups": 2, "weight": "m", "bias": "b"}
              t i = max.dim {"self": "n", "dim": 1, "keepdim": true}
              y = add.Tensor {"self": "t", "other": "n"})",
           R"(["y"])"},
          {"pooled", volume,
           R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": 1}
              p = max_pool3d {"self": "c", "kernel_size": 2}
              s = softmax.int {"self": "p", "dim": 1}
              y = sum.dim_IntList {"self": "s", "dim": [2]})",
           R"(["y"])"},
          {"layers", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 3, 4, 2]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [3, 4, 3, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [4]},
                          {"name": "g", "dtype": "float32", "shape": [1]}])",
           R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 1, "output_padding": 1}
              a = add.Tensor {"self": "c", "other": "g"}
              n = layer_norm {"input": "a", "normalized_shape": [4], "weight": "b", "bias": "b"}
              p = avg_pool3d {"self": "n", "kernel_size": 2, "stride": 2}
              y = gelu {"self": "p"})",
           R"(["y"])"},
          {"grouped", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 6, 5, 7]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [6, 2, 3, 5]}, {"name": "b", "dtype": "float32", "shape": [4]}])",
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": [2, 3], "padding": [1, 2], "groups": 2, "dilation": [2, 1], "output_padding": [1, 0]}
              y = tanh {"self": "c"})",
           R"(["y"])"},
          {"holes", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": 2, "padding": 2, "dilation": 2, "output_padding": 1}
              y = relu {"self": "c"})",
           R"(["y"])"},
          {"wide_holes", image,
           R"(y = conv_transpose2d.input {"input": "x", "weight": "w", "stride": 5, "padding": 1, "dilation": 2})",
           R"(["y"])"},
          {"cropped", image,
           R"(y = conv_transpose2d.input {"input": "x", "weight": "w", "stride": 2, "padding": [5, 3], "output_padding": 1})",
           R"(["y"])"},
          {"one_way", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "bias": "b", "stride": [1, 2], "padding": [1, 1], "dilation": [2, 1], "output_padding": [0, 1]}
              y = mean.dim {"self": "c", "dim": [1]})",
           R"(["y"])"},
          {"chain", image,
           R"(c = conv_transpose2d.input {"input": "x", "weight": "v", "bias": "b", "stride": 2, "padding": 1}
              d = relu {"self": "c"}
              e = conv_transpose2d.input {"input": "d", "weight": "u", "stride": 2}
              f = adaptive_avg_pool2d {"self": "e", "output_size": [1, 1]}
              y = mul.Tensor {"self": "e", "other": "f"})",
           R"(["y"])"}})
    out.push_back(task_of(each));
  return out;
}

bool flips(const schedule& s) {
  return has_move(s, "flip_weights");
}

// The text of each program with the move, once the gates have accepted it and its proofs hold.
std::vector<std::string> accepted_programs(const std::vector<task>& tasks, const char* move,
                                           const lowering_target& target) {
  std::vector<std::string> out;
  proof_checks proofs;
  for (const auto& t : tasks) {
    judged_task judged(t);
    auto schedules = whole_schedules(t, target);
    std::erase_if(schedules, [&](const schedule& s) { return !has_move(s, move); });
    schedules.push_back({find_move(move)->candidates(graph(t), target)});
    EXPECT_GE(schedules.size(), 2U) << t.name;
    for (const auto& s : schedules)
      out.push_back(expect_accepted(judged, proofs, t, s, target));
  }
  return out;
}

// The partition with the move is assembled to whole schedules that the gates accept.
void expect_assembled(const std::vector<task>& tasks, const char* move, const lowering_target& target) {
  for (const auto& t : tasks) {
    const auto layouts = partitions_by_layout(t, target);
    const auto found = std::ranges::find_if(layouts, [&](const auto& each) { return has_move(each.proofs, move); });
    if (found == layouts.end()) {
      ADD_FAILURE() << t.name;
      continue;
    }
    judged_task judged(t);
    expect_assembled(judged, t, *found, target);
  }
}

// The move is not offered, and applied to this step it says why.
void expect_refused(const task& t, const char* move, const char* step, const char* why) {
  SCOPED_TRACE(print_program(t.reference.text));
  EXPECT_FALSE(offers(t, move));
  const auto made = lower(t, {{{move, {{"steps", step}}}}}, target_named("cuda"));
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr(why));
}

class flip_weights : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
  const lowering_target& target() const { return target_named(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(all, flip_weights, testing::Values("cpu", "cuda"));

TEST_P(flip_weights, is_accepted_by_the_gates_and_its_proofs_hold) {
  for (const auto& text : accepted_programs(transposed_networks(), "flip_weights", target()))
    EXPECT_EQ(text.find("conv_transpose"), std::string::npos) << text;
}

TEST_P(flip_weights, has_parts_that_the_gates_accept_and_is_assembled_from_them) {
  for (const auto& t : transposed_networks()) {
    const auto layouts = partitions_by_layout(t, target());
    const auto flipped = std::ranges::find_if(layouts, [](const auto& each) { return flips(each.proofs); });
    ASSERT_NE(flipped, layouts.end()) << t.name;
    for (const task* part : distinct_tasks(*flipped)) {
      EXPECT_FALSE(offers(*part, "flip_weights")) << part->name;
      judged_task judged(*part);
      for (const auto& s : whole_schedules(*part, target())) {
        if (rounds_to_tf32(s)) continue;
        auto made = lower(*part, s, target());
        ASSERT_TRUE(made) << part->name << ": " << made.error().message;
        EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ", " << part->name;
      }
    }
    judged_task judged(t);
    const auto schedules = assemble(t, target(), *flipped, all_known(*flipped, target()));
    ASSERT_FALSE(schedules.empty()) << t.name;
    for (const auto& s : schedules) {
      EXPECT_TRUE(flips(s.plan));
      EXPECT_EQ(s.left_out, 0) << t.name << ": " << print_schedule(s.plan);
      auto made = lower(t, s.plan, target());
      ASSERT_TRUE(made) << t.name << ": " << made.error().message;
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s.plan);
    }
  }
}

class convolve_phases : public flip_weights {};

INSTANTIATE_TEST_SUITE_P(all, convolve_phases, testing::Values("cpu", "cuda"));

TEST_P(convolve_phases, is_accepted_by_the_gates_and_its_proofs_hold) {
  for (const auto& text : accepted_programs(phased_networks(), "convolve_phases", target()))
    EXPECT_EQ(text.find("conv_transpose"), std::string::npos) << text;
}

TEST_P(convolve_phases, has_parts_that_the_gates_accept_and_is_assembled_from_them) {
  expect_assembled(phased_networks(), "convolve_phases", target());
}

// What follows reads the phases where they are, without a copy in the order of the results.
TEST_P(convolve_phases, has_copies_in_kernels_only) {
  for (const auto& t : phased_networks()) {
    auto schedules = whole_schedules(t, target());
    const auto phased =
        std::ranges::find_if(schedules, [](const schedule& s) { return has_move(s, "convolve_phases"); });
    ASSERT_NE(phased, schedules.end()) << t.name;
    const auto made = lower(t, *phased, target());
    ASSERT_TRUE(made) << t.name;
    EXPECT_EQ(calls_of(made->checked.text).find("contiguous"), std::string::npos)
        << t.name << ": " << print_schedule(*phased);
  }
}

class compose_means : public flip_weights {};

INSTANTIATE_TEST_SUITE_P(all, compose_means, testing::Values("cpu", "cuda"));

TEST_P(compose_means, is_accepted_by_the_gates_and_its_proofs_hold) {
  accepted_programs(averaged_networks(), "compose_means", target());
}

TEST_P(compose_means, has_parts_that_the_gates_accept_and_is_assembled_from_them) {
  expect_assembled(averaged_networks(), "compose_means", target());
}

// A search may be given the step of any mean.
TEST(compose_means_of, what_is_no_mean_of_a_convolution_is_refused) {
  const char* const image =
      R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 8, 8]}, {"name": "z", "dtype": "float32", "shape": [2, 8, 6, 6]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [8, 4, 3, 3]}])";
  const struct {
    const char *steps, *step, *outputs, *why;
  } cases[] = {
      {R"(c = conv2d {"input": "x", "weight": "w"}
          r = relu {"self": "c"}
          y = mean.dim {"self": "r", "dim": [2, 3]})",
       "2", R"(["y"])", "more than scale and shift"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          r = add.Tensor {"self": "c", "other": "z"}
          y = mean.dim {"self": "r", "dim": [2, 3]})",
       "2", R"(["y"])", "more than scale and shift"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          y = mean.dim {"self": "c", "dim": [2, 3]})",
       "1", R"(["y", "c"])", "needed otherwise too"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          y = mean.dim {"self": "c", "dim": [2]})",
       "1", R"(["y"])", "neither over space nor over channels"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          y = sum.dim_IntList {"self": "c", "dim": [2, 3]})",
       "1", R"(["y"])", "neither over space nor over channels"},
      {R"(c = conv2d {"input": "x", "weight": "w", "stride": 2}
          y = mean.dim {"self": "c", "dim": [2, 3]})",
       "1", R"(["y"])", "leave out elements"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          y = avg_pool2d {"self": "c", "kernel_size": 3, "padding": 1})",
       "1", R"(["y"])", "beyond its operand"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          y = avg_pool2d {"self": "c", "kernel_size": 4, "ceil_mode": true})",
       "1", R"(["y"])", "beyond its operand"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          d = mul.Scalar {"self": "c", "other": 2.0}
          y = mean.dim {"self": "d", "dim": [1]})",
       "2", R"(["y"])", "before their mean"},
      {R"(c = conv2d {"input": "x", "weight": "w"}
          d = batch_norm {"input": "c", "weight": null, "bias": null, "running_mean": null, "running_var": null, "training": true, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": true}
          y = mean.dim {"self": "d", "dim": [2, 3]})",
       "2", R"(["y"])", "its statistics from its input"},
      {R"(c = max_pool2d {"self": "x", "kernel_size": 2}
          y = mean.dim {"self": "c", "dim": [2, 3]})",
       "1", R"(["y"])", "more than scale and shift"},
  };
  for (const auto& c : cases) {
    const task t = task_of({"refused", image, c.steps, c.outputs});
    expect_refused(t, "compose_means", c.step, c.why);
  }
}

TEST(flip_weights_of, what_is_no_convolution_of_flipped_weights_is_refused) {
  const struct {
    const char *tensors, *steps, *why;
  } cases[] = {
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}], "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3]}])",
       R"(y = conv_transpose1d {"input": "x", "weight": "w", "stride": 2})", "move by more than one element"},
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}], "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3]}])",
       R"(y = conv_transpose1d {"input": "x", "weight": "w", "padding": 3})", "more is cut off"},
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}], "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3]}])",
       R"(y = conv_transpose1d {"input": "x", "weight": "w", "dilation": 2, "output_padding": 1})", "output_padding"},
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}, {"name": "w", "dtype": "float32", "shape": [4, 4, 3]}], "weights": [])",
       R"(y = conv_transpose1d {"input": "x", "weight": "w"})", "w is no weight"},
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}], "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3]}])",
       R"(y = conv1d {"input": "x", "weight": "w"})", "no transposed convolution"},
  };
  for (const auto& c : cases) {
    const task t = task_of({"refused", c.tensors, c.steps, R"(["y"])"});
    expect_refused(t, "flip_weights", "0", c.why);
  }
}

TEST(convolve_phases_of, what_has_no_phases_is_refused) {
  const struct {
    const char *tensors, *steps, *why;
  } cases[] = {
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}], "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3]}])",
       R"(y = conv_transpose1d {"input": "x", "weight": "w"})", "it has one phase"},
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}], "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3]}])",
       R"(y = conv1d {"input": "x", "weight": "w", "stride": 2})", "no transposed convolution"},
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7]}, {"name": "w", "dtype": "float32", "shape": [4, 4, 3]}], "weights": [])",
       R"(y = conv_transpose1d {"input": "x", "weight": "w", "stride": 2})", "w is no weight"},
      {R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 7, 7]}], "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 9, 9]}])",
       R"(y = conv_transpose2d.input {"input": "x", "weight": "w", "stride": 9})", "has 81 phases, more than 64"},
  };
  for (const auto& c : cases) {
    const task t = task_of({"refused", c.tensors, c.steps, R"(["y"])"});
    expect_refused(t, "convolve_phases", "0", c.why);
  }
}

// Copies of views that merge dimensions, which are not all of phases.
TEST(merge_dimensions, reads_what_the_copy_would_and_is_refused_where_it_cannot) {
  const char* const image = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 12, 5, 7]}], "weights": [])";
  const struct {
    const char *steps, *outputs, *why;
  } cases[] = {
      {R"(v = view {"self": "x", "size": [2, 3, 2, 2, 5, 7]}
          p = permute {"self": "v", "dims": [0, 1, 4, 2, 5, 3]}
          c = contiguous {"self": "p"}
          m = view {"self": "c", "size": [2, 3, 10, 14]}
          n = narrow {"self": "m", "dim": 2, "start": 0, "length": 9}
          y = contiguous {"self": "n"})",
       R"(["y"])", ""},
      {R"(v = view {"self": "x", "size": [2, 3, 2, 2, 5, 7]}
          p = permute {"self": "v", "dims": [0, 1, 4, 2, 5, 3]}
          c = contiguous {"self": "p"}
          m = view {"self": "c", "size": [2, 3, 10, 14]}
          n = narrow {"self": "m", "dim": 2, "start": 1, "length": 9}
          y = contiguous {"self": "n"})",
       R"(["y"])", "copies no view"},
      {R"(v = view {"self": "x", "size": [2, 3, 2, 2, 5, 7]}
          p = permute {"self": "v", "dims": [0, 1, 4, 2, 5, 3]}
          c = contiguous {"self": "p"}
          m = view {"self": "c", "size": [2, 3, 10, 14]}
          n = narrow {"self": "m", "dim": 2, "start": 0, "length": 9}
          y = contiguous {"self": "n"})",
       R"(["y", "m"])", "that it alone reads"},
      {R"(v = view {"self": "x", "size": [2, 3, 4, 5, 7]}
          p = permute {"self": "v", "dims": [0, 3, 2, 1, 4]}
          c = contiguous {"self": "p"}
          m = view {"self": "c", "size": [2, 60, 7]}
          n = narrow {"self": "m", "dim": 1, "start": 0, "length": 9}
          y = contiguous {"self": "n"})",
       R"(["y"])", "merges no pairs"},
  };
  use_judging_arena();
  for (const auto& c : cases) {
    const task t = task_of({"merged", image, c.steps, c.outputs});
    for (const char* target : {"cpu", "cuda"}) {
      auto made = lower(t, {{{"merge_dimensions", {{"step", "5"}}}}}, target_named(target));
      if (*c.why != 0) {
        ASSERT_FALSE(made) << c.steps;
        EXPECT_THAT(made.error().message, HasSubstr(c.why));
        continue;
      }
      ASSERT_TRUE(made) << made.error().message;
      EXPECT_EQ(calls_of(made->checked.text).find("contiguous"), std::string::npos);
      judged_task judged(t);
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << target;
    }
  }
}

}  // namespace
}  // namespace cudal1::test
