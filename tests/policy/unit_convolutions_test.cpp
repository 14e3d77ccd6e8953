// Convolutions over fewer dimensions, and products in place of unit kernels: their proofs hold, and the gates accept
// every program.
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

constexpr const char* k_volume =
    R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 6, 5, 7]}],
       "weights": [{"name": "w", "dtype": "float32", "shape": [6, 4, 3, 3, 1]}, {"name": "m", "dtype": "float32", "shape": [6, 4, 3, 1, 2]},
                   {"name": "f", "dtype": "float32", "shape": [6, 4, 1, 3, 3]}, {"name": "t", "dtype": "float32", "shape": [4, 2, 3, 1, 1]},
                   {"name": "b", "dtype": "float32", "shape": [6]}, {"name": "g", "dtype": "float32", "shape": [6, 1, 1, 1]}])";

std::vector<task> folded_networks() {
  const char* const last =
      R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 6, 5, 7], "strides": [840, 1, 140, 28, 4]}],
         "weights": [{"name": "f", "dtype": "float32", "shape": [8, 4, 1, 3, 3]}, {"name": "b", "dtype": "float32", "shape": [8]}])";
  std::vector<task> out;
  for (
      const auto& each : std::vector<network>{
          {"last", k_volume,
           R"(y = conv3d {"input": "x", "weight": "w", "bias": "b", "padding": [1, 2, 0], "dilation": [1, 2, 1], "stride": [2, 1, 1]})",
           R"(["y"])"},
          {"middle", k_volume,
           R"(c = conv3d {"input": "x", "weight": "m", "padding": [1, 0, 1], "stride": [1, 1, 2]}
               d = mul.Tensor {"self": "c", "other": "g"}
               y = relu {"self": "d"})",
           R"(["y"])"},
          {"in_time", k_volume,
           R"(c = conv3d {"input": "x", "weight": "t", "groups": 2, "padding": [1, 0, 0]}
               y = sigmoid {"self": "c"})",
           R"(["y", "c"])"},
          {"in_frames", last,
           R"(c = conv3d {"input": "x", "weight": "f", "bias": "b", "padding": [0, 1, 1], "stride": [1, 2, 1]}
               r = relu {"self": "c"}
               y = contiguous {"self": "r"})",
           R"(["y"])"},
          {"flat",
           R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 9, 1]}, {"name": "z", "dtype": "float32", "shape": [2, 4, 7, 1]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [4, 3, 3, 1]}])",
           R"(c = conv2d {"input": "x", "weight": "w", "stride": [1, 2]}
               a = add.Tensor {"self": "z", "other": "c"}
               y = avg_pool2d {"self": "a", "kernel_size": [2, 1]})",
           R"(["y", "a"])"}})
    out.push_back(task_of(each));
  return out;
}

constexpr const char* k_statistics =
    R"({"name": "m", "dtype": "float32", "shape": [8]}, {"name": "v", "dtype": "float32", "shape": [8], "draw": {"distribution": "uniform", "low": 0.5, "high": 2, "min": 0.01}, "facts": ["non_negative"]},
       {"name": "g", "dtype": "float32", "shape": [8, 1, 1]}, {"name": "b", "dtype": "float32", "shape": [8]})";

std::vector<task> multiplied_networks() {
  const auto image = [](const char* shape, const std::string& weights) {
    return fmt::format(R"("inputs": [{{"name": "x", "dtype": "float32", {}}}], "weights": [{}, {}])", shape, weights,
                       k_statistics);
  };
  const std::string planes =
      image(R"("shape": [2, 4, 6, 8])", R"({"name": "w", "dtype": "float32", "shape": [8, 4, 1, 1]},
      {"name": "k", "dtype": "float32", "shape": [8, 8, 3, 3]}, {"name": "u", "dtype": "float32", "shape": [4, 8, 1, 1]})");
  const std::string rows = image(R"("shape": [2, 4, 6, 5], "strides": [120, 1, 20, 4])",
                                 R"({"name": "w", "dtype": "float32", "shape": [8, 4, 1, 1]})");
  const std::string line = image(R"("shape": [2, 4, 9])", R"({"name": "w", "dtype": "float32", "shape": [4, 8, 1]})");
  const char* const norm =
      R"("weight": null, "bias": "b", "running_mean": "m", "running_var": "v", "training": false, "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": true)";
  const std::string norms = fmt::format(R"(c = conv2d {{"input": "x", "weight": "w"}}
               n = batch_norm {{"input": "c", {}}}
               y = relu {{"self": "n"}})",
                                        norm);
  const std::string block = fmt::format(R"(c = conv2d {{"input": "x", "weight": "w", "bias": "b"}}
               n = batch_norm {{"input": "c", {}}}
               r = relu {{"self": "n"}}
               d = conv2d {{"input": "r", "weight": "k", "padding": 1}}
               e = relu {{"self": "d"}}
               f = conv2d {{"input": "e", "weight": "u"}}
               a = add.Tensor {{"self": "f", "other": "x"}}
               y = relu {{"self": "a"}})",
                                        norm);
  const std::string gated = R"(c = conv2d {"input": "x", "weight": "w"}
               s = mean.dim {"self": "c", "dim": [2, 3], "keepdim": true}
               t = sigmoid {"self": "s"}
               p = mul.Tensor {"self": "c", "other": "t"}
               q = mul.Tensor {"self": "p", "other": "g"}
               o = dropout {"input": "q", "p": 0.5, "train": false}
               y = tanh {"self": "o"})";
  std::vector<task> out;
  for (const auto& each : std::vector<network>{
           {"planes", planes.c_str(), norms.c_str(), R"(["y"])"},
           {"rows", rows.c_str(), norms.c_str(), R"(["y"])"},
           {"block", planes.c_str(), block.c_str(), R"(["y", "r"])"},
           {"gated", planes.c_str(), gated.c_str(), R"(["y"])"},
           {"line", line.c_str(),
            R"(c = conv_transpose1d {"input": "x", "weight": "w", "bias": "b"}
               y = tanh {"self": "c"})",
            R"(["y"])"},
           {"steps", planes.c_str(),
            R"(c = conv2d {"input": "x", "weight": "w", "bias": "b", "stride": [2, 3]}
               y = relu {"self": "c"})",
            R"(["y"])"},
           {"steps_of_rows", rows.c_str(), R"(y = conv2d {"input": "x", "weight": "w", "stride": 2})", R"(["y"])"},
           {"one_place", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [3, 4, 1, 1]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [8, 4, 1, 1]}, {"name": "b", "dtype": "float32", "shape": [8]}])",
            R"(c = conv2d {"input": "x", "weight": "w", "bias": "b"}
               y = sigmoid {"self": "c"})",
            R"(["y"])"},
           {"volume", R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 3, 4, 5]}],
              "weights": [{"name": "w", "dtype": "float32", "shape": [4, 8, 1, 1, 1]}])",
            R"(c = conv_transpose3d.input {"input": "x", "weight": "w"}
               y = relu {"self": "c"})",
            R"(["y", "c"])"}})
    out.push_back(task_of(each));
  return out;
}

std::vector<schedule> schedules_with(const task& t, const char* name, const lowering_target& target) {
  auto out = whole_schedules(t, target);
  std::erase_if(out, [&](const schedule& s) { return !has_move(s, name); });
  for (const auto& alone : find_move(name)->candidates(graph(t), target))
    out.push_back({{alone}});
  return out;
}

class unit_convolutions : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
  const lowering_target& target() const { return target_named(GetParam()); }

  // All schedules with the move are accepted, and their proofs hold.
  void check_schedules(const task& t, const char* name) {
    judged_task judged(t);
    const auto schedules = schedules_with(t, name, target());
    EXPECT_FALSE(schedules.empty()) << t.name;
    for (const auto& s : schedules)
      expect_accepted(judged, proofs_, t, s, target());
  }

  // All partitions with the move have parts that the gates accept, and the whole is assembled from them.
  void check_parts(const task& t, const char* name) {
    judged_task judged(t);
    int found = 0;
    for (const auto& layout : partitions_by_layout(t, target())) {
      if (!has_move(layout.proofs, name)) continue;
      ++found;
      expect_assembled(judged, t, layout, target());
    }
    EXPECT_GT(found, 0) << t.name;
  }

 private:
  proof_checks proofs_;
};

INSTANTIATE_TEST_SUITE_P(all, unit_convolutions, testing::Values("cpu", "cuda"));

TEST_P(unit_convolutions, are_over_fewer_dimensions) {
  for (const auto& t : folded_networks())
    check_schedules(t, "drop_unit_dimensions");
}

// The first dimension is one with the batch where the channels are last, which they are not in the task.
TEST_P(unit_convolutions, are_over_fewer_dimensions_in_another_order) {
  const task t = task_of({"frames", k_volume,
                          R"(c = conv3d {"input": "x", "weight": "f", "bias": "b"}
                             y = relu {"self": "c"})",
                          R"(["y"])"});
  EXPECT_FALSE(offers(t, "drop_unit_dimensions"));
  check_schedules(t, "drop_unit_dimensions");
  check_parts(t, "drop_unit_dimensions");
}

TEST_P(unit_convolutions, over_fewer_dimensions_have_parts) {
  for (const auto& t : folded_networks())
    check_parts(t, "drop_unit_dimensions");
}

TEST_P(unit_convolutions, are_products) {
  for (const auto& t : multiplied_networks())
    check_schedules(t, "multiply_unit_kernels");
}

TEST_P(unit_convolutions, as_products_have_parts) {
  for (const auto& t : multiplied_networks())
    check_parts(t, "multiply_unit_kernels");
}

std::string calls_after(const task& t, const char* name, const lowering_target& target) {
  const auto moves = find_move(name)->candidates(graph(t), target);
  if (moves.empty()) return "no move";
  const auto made = lower(t, {{moves.front()}}, target);
  return made ? calls_of(made->checked.text) : made.error().message;
}

TEST(unit_convolutions_of, any_order_in_memory_need_no_copies) {
  const auto& target = target_named("cuda");
  const auto folded = folded_networks(), multiplied = multiplied_networks();
  EXPECT_EQ(calls_after(folded[0], "drop_unit_dimensions", target), "reshape conv2d reshape ");
  EXPECT_EQ(calls_after(folded[1], "drop_unit_dimensions", target), "reshape conv2d mul.Tensor relu reshape ");
  EXPECT_EQ(calls_after(folded[3], "drop_unit_dimensions", target),
            "permute reshape conv2d relu reshape permute contiguous ");
  EXPECT_EQ(calls_after(multiplied[0], "multiply_unit_kernels", target), "reshape matmul batch_norm relu reshape ");
  EXPECT_EQ(calls_after(multiplied[1], "multiply_unit_kernels", target),
            "permute reshape linear batch_norm relu reshape permute ");
  EXPECT_EQ(calls_after(multiplied[3], "multiply_unit_kernels", target),
            "reshape matmul reshape mean.dim sigmoid reshape mul.Tensor mul.Tensor dropout tanh reshape ");
  EXPECT_EQ(calls_after(multiplied[4], "multiply_unit_kernels", target), "matmul add.Tensor tanh ");
}

// The product's kernel contains what follows.
TEST(unit_convolutions_of, images_are_products_with_epilogues) {
  const auto& target = target_named("cuda");
  for (const auto& t : multiplied_networks()) {
    if (t.name != "planes" && t.name != "rows") continue;
    const auto schedules = whole_schedules(t, target);
    const bool found = std::ranges::any_of(schedules, [&](const schedule& s) {
      if (!has_move(s, "multiply_unit_kernels") || !has_move(s, "product_kernel")) return false;
      const auto made = lower(t, s, target);
      const auto is_launch = [](const cudal1::step& each) { return std::holds_alternative<launch_step>(each); };
      const auto calls = made ? calls_of(made->checked.text) : "";
      return made && std::ranges::count_if(made->checked.text.steps, is_launch) == 1 &&
             calls.find("matmul") == std::string::npos && calls.find("linear") == std::string::npos;
    });
    EXPECT_TRUE(found) << t.name;
  }
}

// Weights that set-up sees in another shape begin where they are, so that kernels copy them in whole vectors.
TEST(unit_convolutions_of, half_types_are_products_on_tensor_cores) {
  for (const char* strides : {"", R"(, "strides": [1024, 1, 128, 16])"}) {
    const std::string tensors = fmt::format(
        R"("inputs": [{{"name": "x", "dtype": "bfloat16", "shape": [2, 16, 8, 8]{}}}],
           "weights": [{{"name": "w", "dtype": "bfloat16", "shape": [32, 16, 1, 1]}}])",
        strides);
    const task t = task_of({"half", tensors.c_str(), R"(y = conv2d {"input": "x", "weight": "w"})", R"(["y"])"});
    const char* const product = *strides == 0 ? "1" : "2";
    const auto made = lower(t, parsed(fmt::format("multiply_unit_kernels(steps=0); product_kernel(steps={})", product)),
                            target_named("cuda"));
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_THAT(print_program(made->checked.text), HasSubstr("mma"));
  }
}

struct refused_case {
  const char *tensors, *steps, *why;
};

void check_refusals(const char* name, const std::vector<refused_case>& cases) {
  for (const auto& c : cases) {
    const task t = task_of({"refused", c.tensors, c.steps, R"(["y"])"});
    EXPECT_FALSE(offers(t, name)) << c.steps;
    const auto made = lower(t, {{{name, {{"steps", "0"}}}}}, target_named("cuda"));
    ASSERT_FALSE(made) << c.steps;
    EXPECT_THAT(made.error().message, HasSubstr(c.why));
  }
}

TEST(drop_unit_dimensions_of, what_has_no_such_dimension_is_refused) {
  const char* const image =
      R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 6, 5]}, {"name": "z", "dtype": "float32", "shape": [4, 4, 1, 3, 1]}, {"name": "v", "dtype": "float32", "shape": [2, 4, 5, 5, 5]}],
         "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 3, 1]}, {"name": "u", "dtype": "float32", "shape": [4, 4, 1, 1]}])";
  check_refusals(
      "drop_unit_dimensions",
      {{k_volume, R"(y = conv3d {"input": "x", "weight": "w", "padding": [0, 0, 1]})", "because of padding"},
       {k_volume, R"(y = conv3d {"input": "x", "weight": "w", "stride": [1, 1, 2]})", "because of padding, strides"},
       {k_volume, R"(y = conv3d {"input": "x", "weight": "w", "stride": [1, 2, 1]})", "because of padding, strides"},
       {k_volume, R"(y = conv3d {"input": "x", "weight": "f"})", "or the order in memory"},
       {k_volume, R"(y = conv_transpose3d.input {"input": "x", "weight": "t"})", "a transposed convolution"},
       {image, R"(y = conv2d {"input": "x", "weight": "w"})", "is one with another"},
       {image, R"(y = conv2d {"input": "x", "weight": "u"})", "has one element"},
       {image, R"(y = conv3d {"input": "v", "weight": "z"})", "z is no weight"},
       {k_volume, R"(y = relu {"self": "x"})", "no convolution"}});
}

TEST(multiply_unit_kernels_of, what_is_no_product_is_refused) {
  const char* const image =
      R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 4, 6, 5]}, {"name": "z", "dtype": "float32", "shape": [4, 4, 1, 1]},
                    {"name": "s", "dtype": "float32", "shape": [2, 4, 6, 5], "strides": [240, 1, 5, 48]}],
         "weights": [{"name": "w", "dtype": "float32", "shape": [4, 4, 1, 1]}, {"name": "k", "dtype": "float32", "shape": [4, 4, 3, 1]},
                     {"name": "h", "dtype": "float32", "shape": [4, 2, 1, 1]}])";
  check_refusals("multiply_unit_kernels",
                 {{image, R"(y = conv2d {"input": "x", "weight": "k"})", "several elements"},
                  {image, R"(y = conv2d {"input": "x", "weight": "w", "padding": 1})", "it is padded"},
                  {image, R"(y = conv2d {"input": "x", "weight": "h", "groups": 2})", "it has groups"},
                  {image, R"(y = conv2d {"input": "x", "weight": "z"})", "z is no weight"},
                  {image, R"(y = conv_transpose2d.input {"input": "x", "weight": "w", "stride": 2})", "zeros between"},
                  {image, R"(y = conv2d {"input": "s", "weight": "w"})", "dense in memory"},
                  {image, R"(y = tanh {"self": "x"})", "no convolution"}});
}

}  // namespace
}  // namespace cudal1::test
