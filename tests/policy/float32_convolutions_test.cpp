// Convolutions whose precision is float32: what the move does, where whole schedules have it, and what estimates and
// doubts make of it.
#include <algorithm>

#include "policy/moves/move_registry.hpp"
#include "policy/search/doubtful_moves.hpp"
#include "policy/search/schedule_estimates.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"

namespace cudal1::test {
namespace {

constexpr const char* k_move = "float32_convolutions";

// As level1_073 of KernelBench has it: cuDNN has no kernel on tensor cores for groups of a transposed convolution.
task grouped_transposed() {
  return task_of({"grouped", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8, 6, 5]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [8, 4, 3, 3]}, {"name": "v", "dtype": "float32", "shape": [8, 16, 3, 3]}])",
                  R"(c = conv_transpose2d.input {"input": "x", "weight": "w", "stride": 2, "padding": 1, "groups": 4}
          y = relu {"self": "c"})",
                  R"(["y"])"});
}

task of_few_channels() {
  return task_of({"few", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 16, 16]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [8, 3, 3, 3]}, {"name": "v", "dtype": "float32", "shape": [8, 8, 3, 3]}])",
                  R"(c = conv2d {"input": "x", "weight": "w"}
                     r = relu {"self": "c"}
                     y = conv2d {"input": "r", "weight": "v"})",
                  R"(["y"])"});
}

task of_many_channels() {
  return task_of({"many", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 8, 16, 16]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [8, 8, 3, 3]}])",
                  R"(c = conv2d {"input": "x", "weight": "w"}
                     y = relu {"self": "c"})",
                  R"(["y"])"});
}

// The precisions of the program's convolutions, in order.
std::vector<std::string> precisions_of(const program& p) {
  std::vector<std::string> out;
  for (const auto& s : p.steps)
    if (const auto* call = std::get_if<aten_step>(&s); call != nullptr && call->op.find("conv") != std::string::npos)
      out.push_back(call->precision);
  return out;
}

using testing::ElementsAre;

TEST(float32_convolutions, sets_the_precision_of_all_or_of_one) {
  const task t = of_few_channels();
  EXPECT_THAT(precisions_of(lowered_for_cuda(t, "float32_convolutions(steps=0+2)")), ElementsAre("float32", "float32"));
  EXPECT_THAT(precisions_of(lowered_for_cuda(t, "float32_convolutions(steps=2)")), ElementsAre("", "float32"));
  const auto moves = find_move(k_move)->candidates(graph(t), for_cuda());
  ASSERT_EQ(moves.size(), 3U);
  EXPECT_EQ(print_schedule({{moves[0]}}), "float32_convolutions(steps=0+2)");
}

TEST(float32_convolutions, is_kept_by_what_rewrites_and_orders_them_afterwards) {
  const auto p = lowered_for_cuda(grouped_transposed(),
                                  "convolve_phases(steps=0); float32_convolutions(steps=0); channels_last(steps=0)");
  EXPECT_THAT(precisions_of(p), ElementsAre("float32"));
}

TEST(float32_convolutions, is_refused_where_there_is_no_tf32_and_where_nothing_is_open) {
  const task t = of_many_channels();
  EXPECT_FALSE(offers(t, k_move, for_cpu()));
  EXPECT_THAT(refusal(t, "float32_convolutions(steps=0)"), HasSubstr("TF32 exists on GPUs only"));
  const auto why = [&](const char* text) {
    const auto made = lower(t, parsed(text), for_cuda());
    return made ? "accepted" : made.error().message;
  };
  EXPECT_THAT(why("float32_convolutions(steps=1)"),
              HasSubstr("step 1 is no convolution of float32 whose precision is open"));
  EXPECT_THAT(why("float32_convolutions(steps=0); float32_convolutions(steps=0)"),
              HasSubstr("whose precision is open"));
  const task half = task_of({"half", R"("inputs": [{"name": "x", "dtype": "float16", "shape": [2, 8, 16, 16]}],
              "weights": [{"name": "w", "dtype": "float16", "shape": [8, 8, 3, 3]}])",
                             R"(y = conv2d {"input": "x", "weight": "w"})", R"(["y"])"});
  EXPECT_FALSE(offers(half, k_move, for_cuda()));
}

// The channels of an image are put last only where the convolution stays in float32.
TEST(float32_convolutions, makes_few_channels_last_a_choice) {
  const task t = of_few_channels();
  graph open(t), exact(t);
  ASSERT_TRUE(apply_move(exact, parsed("float32_convolutions(steps=0+2)").moves[0], for_cuda()));
  const auto first = [&](const graph& g) {
    return print_schedule({{find_move("channels_last")->candidates(g, for_cuda()).at(0)}});
  };
  EXPECT_EQ(first(open), "channels_last(steps=2)");
  EXPECT_EQ(first(exact), "channels_last(steps=0+2)");
}

int count_with(const task& t, const lowering_target& target) {
  const auto whole = whole_schedules(t, target);
  return static_cast<int>(std::ranges::count_if(
      whole, [](const schedule& s) { return std::ranges::count(s.moves, k_move, &move::name) > 0; }));
}

TEST(float32_convolutions, is_in_whole_schedules_with_rewriting_moves_where_the_task_may_be_in_float32) {
  EXPECT_GT(count_with(grouped_transposed(), for_cuda()), 0);
  EXPECT_GT(count_with(of_few_channels(), for_cuda()), 0);
  EXPECT_EQ(count_with(of_many_channels(), for_cuda()), 0);
  EXPECT_EQ(count_with(grouped_transposed(), for_cpu()), 0);
  for (const auto& t : {grouped_transposed(), of_few_channels()})
    for (const auto& s : whole_schedules(t, for_cuda())) {
      const auto at = std::ranges::find(s.moves, k_move, &move::name);
      if (at == s.moves.end()) continue;
      const bool rewrites = std::ranges::any_of(s.moves, [](const move& m) {
        return m.name == "channels_last" || m.name == "convolve_phases" || m.name == "join_layers" ||
               m.name == "tensor_core_convolution";
      });
      EXPECT_TRUE(rewrites) << print_schedule(s);
      EXPECT_TRUE(lower(t, s, for_cuda())) << print_schedule(s);
    }
}

TEST(float32_convolutions, is_in_all_whole_schedules_where_nothing_in_tf32_is_accepted) {
  const auto& strict = for_cuda().limited_to("compute capability 9.0; held to the error of strict float32");
  const auto t = of_many_channels();
  const auto whole = whole_schedules(t, strict);
  EXPECT_GT(whole.size(), 1U);
  EXPECT_EQ(count_with(t, strict), std::ssize(whole));
  for (const auto& s : whole)
    EXPECT_TRUE(lower(t, s, strict)) << print_schedule(s);
}

TEST(float32_convolutions, takes_longer_by_its_estimate_where_arithmetic_decides) {
  const auto gpu = find_device_data("NVIDIA H200");
  ASSERT_TRUE(gpu && *gpu);
  const task t = task_of({"large", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [16, 256, 64, 64]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [256, 256, 3, 3]}])",
                          R"(y = conv2d {"input": "x", "weight": "w"})", R"(["y"])"});
  const auto us = [&](const char* text) {
    schedule_builder made = repaired(t, for_cuda(), parsed(text).moves);
    return estimated_us(t, made, **gpu).value_or(0);
  };
  EXPECT_GT(us("float32_convolutions(steps=0)"), 2 * us("channels_last(steps=0)"));
}

exemplar variant(const std::string& text, outcome result) {
  exemplar e;
  e.plan = parsed(text);
  e.known.result.result = result;
  return e;
}

// Phases that were wrong in TF32 say nothing of phases in float32.
TEST(float32_convolutions, is_judged_apart_from_what_was_wrong_without_it) {
  const task t = grouped_transposed();
  prompt p;
  p.what = {std::shared_ptr<const task>(), &t};
  p.target = &for_cuda();
  p.exemplars.push_back(variant("fuse(steps=1)", outcome::correct));
  for (const char* text : {"convolve_phases(steps=0)", "convolve_phases(steps=0); fuse(steps=1)",
                           "convolve_phases(steps=0); channels_last(steps=0)"})
    p.failed.push_back(variant(text, outcome::wrong_answer));
  const doubtful_moves doubtful(p);
  EXPECT_TRUE(doubtful.any_in(parsed("convolve_phases(steps=0)")));
  EXPECT_FALSE(doubtful.any_in(parsed("convolve_phases(steps=0); float32_convolutions(steps=0)")));
}

// Twelve of twelve evaluations of level1_075 of KernelBench were of kernels in TF32 once, where the task computes in
// float32.
TEST(float32_convolutions, kernels_in_tf32_that_failed_are_left_before_anything_was_correct) {
  const task t = grouped_transposed();
  prompt p;
  p.what = {std::shared_ptr<const task>(), &t};
  p.target = &for_cuda();
  for (const char* text :
       {"convolve_phases(steps=0); tensor_core_convolution(steps=0); graph()",
        "convolve_phases(steps=0); tensor_core_convolution(steps=0); graph(); block(group=0, threads=128)"})
    p.failed.push_back(variant(text, outcome::wrong_answer));
  EXPECT_FALSE(doubtful_moves(p).any_in(parsed("convolve_phases(steps=0); tensor_core_convolution(steps=0)")));
  p.failed.push_back(variant("convolve_phases(steps=0); tensor_core_convolution(steps=0)", outcome::wrong_answer));
  const doubtful_moves doubtful(p);
  EXPECT_TRUE(doubtful.any_in(parsed("convolve_phases(steps=0); tensor_core_convolution(steps=0)")));
  EXPECT_FALSE(doubtful.any_in(parsed("fuse(steps=1); graph()"))) << "a move that says nothing of the arithmetic";
  EXPECT_FALSE(
      doubtful.any_in(parsed("convolve_phases(steps=0); float32_convolutions(steps=0); "
                             "tensor_core_convolution(steps=0, factors=tf32_pairs)")));
}

}  // namespace
}  // namespace cudal1::test
