// Activations of linear layers in the library's product: the gates accept them, and what must stay a step stays one.
#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/proof_checks.hpp"
#include "policy/search/starting_schedules.hpp"
#include "tests/policy/judged_task.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"

namespace cudal1::test {
namespace {

constexpr const char* k_two_layers =
    R"("inputs": [{"name": "x", "dtype": "TYPE", "shape": [SHAPE, 24]}],
       "weights": [{"name": "w", "dtype": "TYPE", "shape": [40, 24]}, {"name": "b", "dtype": "TYPE", "shape": [40]},
                   {"name": "v", "dtype": "TYPE", "shape": [16, 40]}])";

std::string with(std::string text, std::string_view word, const std::string& by) {
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + by.size()))
    text.replace(at, word.size(), by);
  return text;
}

task layers(const std::string& name, const char* steps, const std::string& type = "bfloat16",
            const std::string& shape = "6", const char* outputs = R"(["y"])") {
  const std::string tensors = with(with(k_two_layers, "TYPE", type), "SHAPE", shape);
  return task_of({name.c_str(), tensors.c_str(), steps, outputs});
}

constexpr const char* k_relu = R"(h = linear {"input": "x", "weight": "w", "bias": "b"}
                                  y = relu {"self": "h"})";
constexpr const char* k_feed_forward = R"(h = linear {"input": "x", "weight": "w", "bias": "b"}
                                          a = gelu {"self": "h", "approximate": "tanh"}
                                          y = linear {"input": "a", "weight": "v"})";
// The activation is in a kernel with what follows.
constexpr const char* k_scaled = R"(h = linear {"input": "x", "weight": "w", "bias": "b"}
                                    a = relu {"self": "h"}
                                    s = mul.Scalar {"self": "a", "other": 0.5}
                                    y = sigmoid {"self": "s"})";

std::vector<task> tasks() {
  std::vector<task> out;
  for (const char* type : {"float16", "bfloat16"}) {
    out.push_back(layers(std::string("relu_") + type, k_relu, type));
    out.push_back(layers(std::string("feed_forward_") + type, k_feed_forward, type, "3, 5"));
    out.push_back(layers(std::string("scaled_") + type, k_scaled, type, "2, 3, 4", R"(["y", "a"])"));
  }
  return out;
}

constexpr const char* k_images =
    R"("inputs": [{"name": "x", "dtype": "TYPE", "shape": [2, 8, 9, 7]}],
       "weights": [{"name": "w", "dtype": "TYPE", "shape": [8, 8, 3, 3]}, {"name": "b", "dtype": "TYPE", "shape": [8]},
                   {"name": "v", "dtype": "TYPE", "shape": [8, 4, 1, 1]}, {"name": "m", "dtype": "TYPE", "shape": [8]},
                   {"name": "s", "dtype": "TYPE", "shape": [8], "draw": {"distribution": "uniform", "low": 0.5, "high": 2}}])";

task images(const char* name, const char* steps, const std::string& type = "float32",
            const char* outputs = R"(["y"])") {
  return task_of({name, with(k_images, "TYPE", type).c_str(), steps, outputs});
}

constexpr const char* k_plain = R"(c = conv2d {"input": "x", "weight": "w", "padding": 1, "dilation": 2}
                                   y = relu {"self": "c"})";
constexpr const char* k_biased = R"(c = conv2d {"input": "x", "weight": "v", "bias": "b", "stride": [2, 1], "groups": 2}
                                    r = relu {"self": "c"}
                                    y = mul.Scalar {"self": "r", "other": 3.0})";
// A block of a residual network: the first convolution with its norm and ReLU, the second with its norm, the input and
// the ReLU of the sum.
constexpr const char* k_block = R"(c = conv2d {"input": "x", "weight": "w", "padding": 1}
    n = batch_norm {"input": "c", "weight": "b", "bias": "m", "running_mean": "m", "running_var": "s", "training": false, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
    r = relu {"self": "n"}
    d = conv2d {"input": "r", "weight": "w", "bias": "b", "padding": 1}
    k = batch_norm {"input": "d", "weight": "m", "bias": "b", "running_mean": "b", "running_var": "s", "training": false, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
    a = add.Tensor {"self": "k", "other": "x"}
    y = relu {"self": "a"})";

std::vector<task> networks() {
  std::vector<task> out;
  for (const char* type : {"float32", "float16", "bfloat16"}) {
    out.push_back(images("plain", k_plain, type));
    out.push_back(images("biased", k_biased, type));
    if (type != std::string("float16")) out.push_back(images("block", k_block, type));
  }
  return out;
}

class LibraryActivation : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

std::vector<schedule> whole_schedules_with_it(const task& t) {
  auto out = whole_schedules(t, for_cuda());
  std::erase_if(out, [](const schedule& s) {
    return std::ranges::count(s.moves, "library_activation", &move::name) == 0 || rounds_to_tf32(s);
  });
  EXPECT_FALSE(out.empty()) << t.name;
  return out;
}

void expect_accepted(const task& t, const std::vector<schedule>& schedules, const char* call) {
  judged_task judged(t);
  proof_checks proofs;
  for (const auto& s : schedules) {
    auto made = lower(t, s, for_cuda());
    ASSERT_TRUE(made) << t.name << ": " << print_schedule(s) << ": " << made.error().message;
    EXPECT_THAT(calls_of(made->checked.text), HasSubstr(call)) << print_schedule(s);
    EXPECT_TRUE(refuse_wrong_proofs(proofs.of(t, s, for_cuda(), made->certificates))) << print_schedule(s);
    EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s);
  }
}

TEST_F(LibraryActivation, IsAcceptedByTheGates) {
  for (const auto& t : tasks()) {
    auto schedules = whole_schedules_with_it(t);
    schedules.push_back(parsed("library_activation(step=1)"));
    expect_accepted(t, schedules, "_addmm_activation");
  }
}

TEST_F(LibraryActivation, IsOneCallWithViews) {
  const auto calls = [](const task& t, const char* moves) { return calls_of(lowered_for_cuda(t, moves)); };
  EXPECT_EQ(calls(layers("relu", k_relu), "library_activation(step=1)"), "t _addmm_activation ");
  EXPECT_EQ(calls(layers("feed_forward", k_feed_forward, "bfloat16", "3, 5"), "library_activation(step=1)"),
            "t reshape _addmm_activation reshape linear ");
  EXPECT_EQ(calls(layers("scaled", k_scaled), "fuse(steps=1..3); library_activation(step=1)"), "t _addmm_activation ")
      << "what follows stays a kernel";
}

// Every whole schedule with the move, in both orders in memory.
TEST_F(LibraryActivation, OfConvolutionsIsAcceptedByTheGates) {
  for (const auto& t : networks())
    expect_accepted(t, whole_schedules_with_it(t), "cudnn_convolution");
}

TEST_F(LibraryActivation, OfAResidualBlockIsTwoCalls) {
  const auto calls = [](const char* moves) { return calls_of(lowered_for_cuda(images("block", k_block), moves)); };
  EXPECT_EQ(calls("library_activation(step=2); library_activation(step=6)"),
            "cudnn_convolution_relu cudnn_convolution_add_relu ");
  EXPECT_EQ(calls("fuse(steps=1..2); fuse(steps=4..6); library_activation(step=6)"),
            "conv2d cudnn_convolution_add_relu ");
  EXPECT_EQ(calls_of(lowered_for_cuda(images("biased", k_biased),
                                      "separate_bias(); fuse(steps=2..4); library_activation(step=3)")),
            "cudnn_convolution_relu ")
      << "the bias is an argument again";
}

TEST_F(LibraryActivation, IsRefusedWhereItIsNotTheSame) {
  const auto why = [](const task& t, const char* moves = "library_activation(step=1)") {
    const auto made = lower(t, parsed(moves), for_cuda());
    return made ? "accepted" : made.error().message;
  };
  EXPECT_THAT(why(layers("single", k_relu, "float32")), HasSubstr("not of a half type"));
  EXPECT_THAT(why(layers("erf", R"(h = linear {"input": "x", "weight": "w", "bias": "b"}
                                   y = gelu {"self": "h"})")),
              HasSubstr("neither a ReLU nor a GELU by tanh"));
  EXPECT_THAT(why(layers("read", R"(h = linear {"input": "x", "weight": "w", "bias": "b"}
                                    a = relu {"self": "h"}
                                    y = add.Tensor {"self": "a", "other": "h"})")),
              HasSubstr("read elsewhere"));
  EXPECT_THAT(why(layers("output", k_relu, "bfloat16", "6", R"(["y", "h"])")), HasSubstr("read elsewhere"));
  EXPECT_THAT(why(layers("plain", R"(h = linear {"input": "x", "weight": "w"}
                                     y = relu {"self": "h"})")),
              HasSubstr("has no bias"));
  EXPECT_THAT(why(layers("apart", R"(t = transpose.int {"self": "x", "dim0": 0, "dim1": 1}
                                     h = linear {"input": "t", "weight": "w", "bias": "b"}
                                     y = relu {"self": "h"})",
                         "bfloat16", "3, 5"),
                  "library_activation(step=2)"),
              HasSubstr("not evenly spaced"));
  EXPECT_THAT(why(layers("kernel", k_relu), "product_kernel(steps=0); library_activation(step=1)"),
              HasSubstr("not made by aten::linear in the library"));
  EXPECT_THAT(why(images("norm", R"(c = conv2d {"input": "x", "weight": "w"}
      n = batch_norm {"input": "c", "weight": "b", "bias": null, "running_mean": null, "running_var": null, "training": true, "momentum": 0.1, "eps": 0.00001, "cudnn_enabled": true}
      y = relu {"self": "n"})"),
                  "library_activation(step=2)"),
              HasSubstr("neither a convolution"));
  EXPECT_THAT(why(images("block", k_block, "float16"), "library_activation(step=2)"),
              HasSubstr("neither a convolution"))
      << "the norm's weights times the convolution's may overflow";
  EXPECT_THAT(why(images("scaled_sum", R"(c = conv2d {"input": "x", "weight": "w", "padding": 1}
                                          a = add.Tensor {"self": "x", "other": "c", "alpha": 2}
                                          y = relu {"self": "a"})"),
                  "library_activation(step=2)"),
              HasSubstr("nor a sum with one"));
  EXPECT_THAT(refusal(layers("relu", k_relu), "library_activation(step=1)"), HasSubstr("only a GPU's library"));
}

}  // namespace
}  // namespace cudal1::test
