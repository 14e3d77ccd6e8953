// Convolutions with the channels last in memory: what follows them keeps that order or restores the task's own, and the
// gates accept every program.
#include "policy/graph/channels_last.hpp"

#include <algorithm>
#include <stdexcept>

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
#include "tests/sandbox/cuda/compiler/harness.hpp"

namespace cudal1::test {
namespace {

std::vector<task> networks() {
  static const std::vector<network> all = {
      {"residual", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 20, 9, 7]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [20, 20, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [20]},
                    {"name": "v", "dtype": "float32", "shape": [24, 20, 1, 1]}])",
       R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "padding": 1}
          r = relu {"self": "c"}
          s = add.Tensor {"self": "r", "other": "x"}
          y = conv2d {"input": "s", "weight": "v"}
          z = sigmoid {"self": "y"})",
       R"(["z", "c"])"},
      {"classifier", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 19, 17]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [24, 3, 3, 3]}, {"name": "scale", "dtype": "float32", "shape": [24]},
                    {"name": "mean", "dtype": "float32", "shape": [24]},
                    {"name": "variance", "dtype": "float32", "shape": [24], "draw": {"distribution": "uniform", "low": 0.5, "high": 2}},
                    {"name": "v", "dtype": "float32", "shape": [24, 1, 3, 3]},
                    {"name": "l", "dtype": "float32", "shape": [10, 24]}])",
       R"(c = conv2d {"input": "x", "weight": "w"}
          n = batch_norm {"input": "c", "weight": "scale", "bias": null, "running_mean": "mean", "running_var": "variance", "training": false, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          r = relu {"self": "n"}
          p = max_pool2d {"self": "r", "kernel_size": 2}
          d = conv2d {"input": "p", "weight": "v", "padding": 1, "groups": 24}
          h = hardswish {"self": "d"}
          m = mean.dim {"self": "h", "dim": [2, 3]}
          y = linear {"input": "m", "weight": "l"})",
       R"(["y"])"},
      {"flattened", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 20, 6, 6]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [20, 20, 3, 3]}, {"name": "l", "dtype": "float32", "shape": [5, 320]}])",
       R"(c = conv2d {"input": "x", "weight": "w"}
          r = relu {"self": "c"}
          f = flatten.using_ints {"self": "r", "start_dim": 1}
          y = linear {"input": "f", "weight": "l"})",
       R"(["y"])"},
      {"volumes", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 16, 5, 6, 7]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [32, 16, 3, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [32]},
                    {"name": "g", "dtype": "float32", "shape": [32]}, {"name": "h", "dtype": "float32", "shape": [32]}])",
       R"(c = conv3d {"input": "x", "weight": "w", "bias": "b", "padding": 1}
          n = group_norm {"input": "c", "num_groups": 4, "weight": "g", "bias": "h"}
          y = gelu {"self": "n"}
          p = max_pool3d {"self": "y", "kernel_size": 2})",
       R"(["y", "p"])"},
      {"transposed", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 16, 3, 4, 5]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [16, 17, 3, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [17, 1, 1, 1]}])",
       R"(c = conv_transpose3d.input {"input": "x", "weight": "w", "stride": 2, "padding": 1, "output_padding": 1}
          s = softmax.int {"self": "c", "dim": 1}
          a = add.Tensor {"self": "s", "other": "b"}
          y = sigmoid {"self": "a"})",
       R"(["y"])"},
      {"two_results", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 16, 5, 8]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [16, 256, 3, 3]}])",
       R"(c = conv_transpose2d.input {"input": "x", "weight": "w"}
          s = softmax.int {"self": "c", "dim": 1}
          y = sigmoid {"self": "s"})",
       R"(["s", "y"])"},
      {"instances", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 16, 9, 8]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [16, 24, 3, 3]}])",
       R"(c = conv_transpose2d.input {"input": "x", "weight": "w"}
          n = instance_norm {"input": "c", "weight": null, "bias": null, "running_mean": null, "running_var": null, "use_input_stats": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          y = div.Scalar {"self": "n", "other": 2.0})",
       R"(["y"])"},
      {"patches", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 32, 32]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [48, 4, 4, 4]}, {"name": "p", "dtype": "float32", "shape": [1, 64, 48]}])",
       R"(c = conv2d {"input": "x", "weight": "w", "stride": 4}
          f = flatten.using_ints {"self": "c", "start_dim": 2}
          t = transpose.int {"self": "f", "dim0": 1, "dim1": 2}
          s = add.Tensor {"self": "t", "other": "p"}
          y = layer_norm {"input": "s", "normalized_shape": [48]})",
       R"(["y"])"},
      {"convnext", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 24, 7, 8]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [24, 1, 7, 7]}, {"name": "g", "dtype": "float32", "shape": [24]},
                    {"name": "l", "dtype": "float32", "shape": [32, 24]}, {"name": "m", "dtype": "float32", "shape": [24, 32]}])",
       R"(c = conv2d {"input": "x", "weight": "w", "padding": 3, "groups": 24}
          q = permute {"self": "c", "dims": [0, 2, 3, 1]}
          n = layer_norm {"input": "q", "normalized_shape": [24], "weight": "g"}
          h = linear {"input": "n", "weight": "l"}
          a = gelu {"self": "h"}
          k = linear {"input": "a", "weight": "m"}
          r = permute {"self": "k", "dims": [0, 3, 1, 2]}
          y = add.Tensor {"self": "r", "other": "x"})",
       R"(["y"])"},
      {"branches", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 16, 8, 8]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [16, 16, 3, 3]}, {"name": "v", "dtype": "float32", "shape": [16, 16, 1, 1]}])",
       R"(c = conv2d {"input": "x", "weight": "w", "padding": 1}
          d = conv2d {"input": "x", "weight": "v"}
          j = cat {"tensors": ["c", "d"], "dim": 1}
          r = relu {"self": "j"}
          p = avg_pool2d {"self": "r", "kernel_size": [2, 2]}
          u s = split.Tensor {"self": "p", "split_size": 16, "dim": 1}
          e = mul.Tensor {"self": "u", "other": "s"}
          y = cumsum {"self": "e", "dim": 1})",
       R"(["y"])"},
      {"statistics", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [3, 16, 8, 9]}],
        "weights": [{"name": "w", "dtype": "float32", "shape": [18, 16, 3, 3]}, {"name": "g", "dtype": "float32", "shape": [18]}])",
       R"(c = conv2d {"input": "x", "weight": "w"}
          n = batch_norm {"input": "c", "weight": "g", "bias": null, "running_mean": null, "running_var": null, "training": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
          y = tanh {"self": "n"}
          m = amax {"self": "y", "dim": [1], "keepdim": true}
          s = sum.dim_IntList {"self": "y", "dim": [1, 2, 3]})",
       R"(["m", "s"])"},
  };
  std::vector<task> out;
  for (const auto& each : all)
    out.push_back(task_of(each));
  return out;
}

// All whole schedules that go on with other steps, and each way to do so alone.
std::vector<schedule> prepared(const task& t, const lowering_target& target) {
  auto out = whole_schedules(t, target);
  std::erase_if(out,
                [](const schedule& s) { return find_move(s.moves.front().name)->phase != move_phase::preparation; });
  const graph g(t);
  for (const move_kind* kind : moves_of(move_phase::preparation))
    for (auto& m : kind->candidates(g, target))
      out.push_back({{m}});
  return out;
}

class channels_last : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
  const lowering_target& target() const { return target_named(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(all, channels_last, testing::Values("cpu", "cuda"));

TEST_P(channels_last, is_accepted_by_the_gates) {
  proof_checks proofs;
  for (const auto& t : networks()) {
    judged_task judged(t);
    const auto schedules = prepared(t, target());
    EXPECT_GE(schedules.size(), 2U) << t.name;
    for (const auto& s : schedules) {
      if (rounds_to_tf32(s)) continue;
      auto made = lower(t, s, target());
      ASSERT_TRUE(made) << t.name << ": " << print_schedule(s) << ": " << made.error().message;
      EXPECT_TRUE(refuse_wrong_proofs(proofs.of(t, s, target(), made->certificates))) << print_schedule(s);
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s);
    }
  }
}

TEST_P(channels_last, has_parts_that_the_gates_accept) {
  for (const auto& t : networks()) {
    const auto layouts = partitions_by_layout(t, target());
    ASSERT_GE(layouts.size(), 2U) << t.name;
    for (const task* part : distinct_tasks(layouts[1])) {
      EXPECT_TRUE(convolutions_with_channels(part->reference).empty() || !offers(*part, "channels_last")) << part->name;
      const auto whole = whole_schedules(*part, target());
      if (whole.empty()) continue;
      judged_task judged(*part);
      auto made = lower(*part, whole.front(), target());
      ASSERT_TRUE(made) << part->name << ": " << made.error().message;
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ", " << part->name;
    }
  }
}

TEST_P(channels_last, is_assembled_from_its_parts) {
  for (const auto& t : networks()) {
    const auto layouts = partitions_by_layout(t, target());
    judged_task judged(t);
    const auto schedules = assemble(t, target(), layouts.at(1), all_known(layouts[1], target()));
    ASSERT_FALSE(schedules.empty()) << t.name;
    for (const auto& s : schedules) {
      EXPECT_EQ(s.left_out, 0) << t.name << ": " << print_schedule(s.plan);
      auto made = lower(t, s.plan, target());
      ASSERT_TRUE(made) << t.name << ": " << made.error().message;
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s.plan);
    }
  }
}

// As if the convolution of that step had been measured alone.
void set_time(const task_partitions& layout, int step, double us, known_parts& known) {
  for (const auto& way : layout.ways)
    for (const auto& part : way.parts)
      if (part.covers == std::vector{step}) known[part.what.id] = {{}, us, us};
}

TEST_P(channels_last, is_chosen_for_the_convolutions_that_are_faster_so) {
  const auto all = networks();
  const auto& t = *std::ranges::find(all, "branches", &task::name);
  const auto layouts = partitions_by_layout(t, target());
  const auto last = convolutions_after(t, target(), {layouts[1].proofs.moves[0]});
  ASSERT_THAT(last, testing::SizeIs(2));
  known_parts known;
  for (const auto& [layout, step, us] : {std::tuple(0, 0, 10.0), {0, 1, 10.0}, {1, last[0], 5.0}, {1, last[1], 20.0}})
    set_time(layouts[static_cast<std::size_t>(layout)], step, us, known);
  ASSERT_THAT(known, testing::SizeIs(4));
  const auto mixed = mixed_preparation(t, target(), layouts[0], layouts[1], known);
  EXPECT_EQ(print_schedule({mixed}), "channels_last(steps=0)");
  const auto parts = partitions_of(t, target(), mixed);
  judged_task judged(t);
  for (const auto& s : assemble(t, target(), parts, all_known(parts, target()))) {
    auto made = lower(t, s.plan, target());
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << print_schedule(s.plan);
  }
  set_time(layouts[1], last[1], 5, known);
  EXPECT_THAT(mixed_preparation(t, target(), layouts[0], layouts[1], known), testing::IsEmpty()) << "both";
}

// Steps of the task with other operators than views and copies, as the move leaves them.
std::string operators_after(const std::string& name, const std::string& moves, const lowering_target& target) {
  const auto all = networks();
  const auto t = std::ranges::find(all, name, &task::name);
  auto made = lower(*t, parsed(moves), target);
  if (!made) throw std::runtime_error(made.error().message);
  return calls_of(made->checked.text);
}

TEST(ChannelsLast, CopiesOnlyWhereTheOrderHasToChange) {
  EXPECT_EQ(operators_after("patches", "channels_last(steps=0)", for_cuda()),
            "contiguous contiguous conv2d flatten.using_ints transpose.int add.Tensor layer_norm ");
  EXPECT_EQ(operators_after("convnext", "channels_last(steps=0)", for_cuda()),
            "contiguous conv2d permute layer_norm linear gelu linear permute add.Tensor ");
  EXPECT_EQ(operators_after("flattened", "channels_last(steps=0); set_up(step=1)", for_cuda()),
            "contiguous conv2d relu contiguous flatten.using_ints linear ");
}

TEST(ChannelsLast, IsRefusedWhereItDoesNotApply) {
  const auto all = networks();
  const auto& classifier = *std::ranges::find(all, "classifier", &task::name);
  EXPECT_THAT(refusal(classifier, "channels_last(steps=2)"), HasSubstr("is not a convolution"));
  EXPECT_THAT(refusal(classifier, "fuse(steps=1..2); channels_last(steps=0)"), HasSubstr("before any other move"));
  EXPECT_THAT(refusal(classifier, "channels_last(steps=0); channels_last(steps=1)"), HasSubstr("is not a convolution"));
  EXPECT_THAT(refusal(classifier, "separate_bias()"), HasSubstr("at no cost on this device"));
}

// The first whole schedule with the channels last.
schedule with_order(const task& t) {
  const auto whole = prepared(t, for_cuda());
  const auto found = std::ranges::find_if(
      whole, [](const schedule& s) { return std::ranges::count(s.moves, "channels_last", &move::name) > 0; });
  return *found;
}

TEST(ChannelsLast, LeavesImagesToKernelsInFloat32) {
  const auto all = networks();
  const auto& t = *std::ranges::find(all, "classifier", &task::name);
  EXPECT_THAT(print_schedule(with_order(t)), HasSubstr("channels_last(steps=4)"))
      << "not the convolution of 3 channels";
}

// An image whose channels are convolved one by one: cuDNN does that in TF32 with the channels last.
TEST(ChannelsLast, LeavesChannelsOfImagesWhereTheyAre) {
  const auto t = read_task(R"({"format": 1, "name": "blur", "family": "test",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 32, 32]}],
    "weights": [{"name": "w", "dtype": "float32", "shape": [3, 1, 3, 1]}],
    "steps": [{"aten": "aten::conv2d", "args": {"input": "x", "weight": "w", "groups": 3}, "out": ["y"]}],
    "outputs": ["y"]})",
                           "cuda");
  ASSERT_TRUE(t) << t.error().message;
  for (const auto& s : prepared(*t, for_cuda()))
    EXPECT_THAT(print_schedule(s), Not(HasSubstr("channels_last")));
}

TEST(ChannelsLast, SoftmaxOverChannelsStoresThroughSharedMemory) {
  const auto all = networks();
  const auto& t = *std::ranges::find(all, "transposed", &task::name);
  const program made = lowered_for_cuda(t, print_schedule(with_order(t)));
  EXPECT_THAT(made.source, HasSubstr("_stage["));
  EXPECT_THAT(made.source, HasSubstr("contiguous, softmax, add, sigmoid")) << "all in one kernel";
}

TEST(ChannelsLast, ANormCopiesItsResultInAnotherKernel) {
  const auto all = networks();
  const auto& t = *std::ranges::find(all, "volumes", &task::name);
  const program made = lowered_for_cuda(t, print_schedule(with_order(t)));
  EXPECT_THAT(made.source, HasSubstr("// contiguous"));
  EXPECT_THAT(made.source, HasSubstr("group_norm, gelu\n"));
}

TEST(ChannelsLast, TransposesInSharedMemoryWhereBothDimensionsAreLarge) {
  const auto all = networks();
  const auto source = [&](const char* name) {
    const auto& t = *std::ranges::find(all, name, &task::name);
    return lowered_for_cuda(t, print_schedule(with_order(t))).source;
  };
  EXPECT_THAT(source("residual"), HasSubstr("__shared__ float"));
  const auto& classifier = *std::ranges::find(all, "classifier", &task::name);
  EXPECT_THAT(lowered_for_cuda(classifier, "channels_last(steps=0); fuse(steps=0)").source, Not(HasSubstr("_tile[")))
      << "three channels";
  for (const auto& t : all)
    for (const auto& s : prepared(t, for_cuda())) {
      const auto compiled = compile(lowered_for_cuda(t, print_schedule(s)).source);
      EXPECT_TRUE(compiled) << t.name << ": " << compiled.error().message;
    }
}

TEST(SeparateBias, IsPartOfTheKernelThatFollows) {
  const auto all = networks();
  const auto& t = *std::ranges::find(all, "residual", &task::name);
  const auto whole = prepared(t, for_cuda());
  const auto separate =
      std::ranges::find(whole, "separate_bias", [](const schedule& s) { return s.moves.front().name; });
  ASSERT_NE(separate, whole.end());
  const program made = lowered_for_cuda(t, print_schedule(*separate));
  EXPECT_THAT(made.source, HasSubstr("add, relu, add"));
  EXPECT_THAT(print_program(made), HasSubstr(R"("bias":null)"));
}

}  // namespace
}  // namespace cudal1::test
