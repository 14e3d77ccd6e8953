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

task layers(const std::string& name, const char* steps, const std::string& type = "bfloat16",
            const std::string& shape = "6", const char* outputs = R"(["y"])") {
  std::string tensors = k_two_layers;
  const auto put = [&](std::string_view word, const std::string& text) {
    for (auto at = tensors.find(word); at != std::string::npos; at = tensors.find(word, at + text.size()))
      tensors.replace(at, word.size(), text);
  };
  put("TYPE", type);
  put("SHAPE", shape);
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

class LibraryActivation : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_judging_arena(); }
};

std::string calls_of(const program& p) {
  std::string out;
  for (const auto& s : p.steps)
    if (const auto* call = std::get_if<aten_step>(&s)) out += call->op.substr(6) + " ";
  return out;
}

TEST_F(LibraryActivation, IsAcceptedByTheGates) {
  proof_checks proofs;
  for (const auto& t : tasks()) {
    judged_task judged(t);
    auto schedules = whole_schedules(t, for_cuda());
    std::erase_if(schedules,
                  [](const schedule& s) { return !std::ranges::count(s.moves, "library_activation", &move::name); });
    EXPECT_FALSE(schedules.empty()) << t.name;
    schedules.push_back(parsed("library_activation(step=1)"));
    for (const auto& s : schedules) {
      auto made = lower(t, s, for_cuda());
      ASSERT_TRUE(made) << t.name << ": " << print_schedule(s) << ": " << made.error().message;
      EXPECT_THAT(calls_of(made->checked.text), testing::HasSubstr("_addmm_activation")) << print_schedule(s);
      EXPECT_TRUE(refuse_wrong_proofs(proofs.of(t, s, for_cuda(), made->certificates))) << print_schedule(s);
      EXPECT_EQ(judged.problem_of(std::move(made->checked.text)), "") << t.name << ": " << print_schedule(s);
    }
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
  EXPECT_THAT(refusal(layers("relu", k_relu), "library_activation(step=1)"), HasSubstr("only a GPU's library"));
}

}  // namespace
}  // namespace cudal1::test
