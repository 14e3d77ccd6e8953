// Which layers may be joined, and what becomes of their weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/moves/move_registry.hpp"
#include "policy/search/task_parts.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/network_text.hpp"

namespace cudal1::test {
namespace {

// Of two layers of x [2, 6, 16], `a` and `b`, both of 8 features; `z` has the size of x, `i` that of a weight.
task two_layers(const std::string& layers, const std::string& readers, const std::string& outputs = R"(["y"])") {
  const std::string steps = layers + "\n" + readers;
  return task_of(
      {"layers",
       R"("inputs": [{"name": "x", "dtype": "float32", "shape": [2, 6, 16]}, {"name": "z", "dtype": "float32", "shape": [2, 6, 16]},
                                {"name": "i", "dtype": "float32", "shape": [8, 16]}],
                     "weights": [{"name": "v", "dtype": "float32", "shape": [8, 16]}, {"name": "w", "dtype": "float32", "shape": [8, 16]},
                                 {"name": "c", "dtype": "float32", "shape": [8]}, {"name": "u", "dtype": "float32", "shape": [5, 8]},
                                 {"name": "h", "dtype": "float32", "shape": [5]}, {"name": "k", "dtype": "float32", "shape": [4, 6, 3]}])",
       steps.c_str(), outputs.c_str()});
}

constexpr const char* k_layers = R"(a = linear {"input": "x", "weight": "v"}
                                    b = linear {"input": "x", "weight": "w", "bias": "c"})";
constexpr const char* k_product = R"(y = mul.Tensor {"self": "a", "other": "b"})";

TEST(JoinLayers, MakesOneWeightAtSetUp) {
  const auto made = lower(two_layers(k_layers, k_product), parsed("join_layers(steps=0..1)"), for_cpu());
  ASSERT_TRUE(made) << made.error().message;
  const program& p = made->checked.text;
  EXPECT_EQ(calls_of(p), "linear narrow narrow mul.Tensor ");
  const auto& layer = std::get<aten_step>(p.steps[0]);
  EXPECT_EQ(made->checked.types.at(layer.args[1].second.as_string()).shape, (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(made->checked.types.at(layer.args[2].second.as_string()).shape, (std::vector<int64_t>{16}));
  ASSERT_EQ(p.setup.size(), 3U) << "the weight, no bias, and the bias";
  EXPECT_EQ(made->checked.view_of.at("a"), layer.results[0]);
  EXPECT_EQ(made->checked.view_of.at("b"), layer.results[0]);
  ASSERT_EQ(made->certificates.size(), 1U);
  EXPECT_THAT(made->certificates[0], HasSubstr("steps 0..1 multiply x by weights that no input changes"));
}

TEST(JoinLayers, MakesAWeightOnceForAllThatReadIt) {
  const task t = two_layers(std::string(k_layers) + R"(
                            d = linear {"input": "z", "weight": "v"}
                            e = linear {"input": "z", "weight": "w", "bias": "c"})",
                            R"(m = mul.Tensor {"self": "a", "other": "b"}
                               n = mul.Tensor {"self": "d", "other": "e"}
                               y = add.Tensor {"self": "m", "other": "n"})");
  for (const char* moves : {"join_layers(steps=0..3)", "join_layers(steps=2..3); join_layers(steps=0..1)"}) {
    const auto made = lower(t, parsed(moves), for_cpu());
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->checked.text.setup.size(), 3U) << moves;
    EXPECT_EQ(calls_of(made->checked.text),
              "linear narrow narrow linear narrow narrow mul.Tensor mul.Tensor add.Tensor ");
  }
}

TEST(JoinLayers, IsRefusedWhereThereIsNothingToJoin) {
  const task t = two_layers(k_layers, k_product);
  EXPECT_THAT(refusal(t, "join_layers(steps=0)"), HasSubstr("is the only layer of x among these"));
  EXPECT_THAT(refusal(t, "join_layers(steps=0..2)"), HasSubstr("it is no product with weights"));
  EXPECT_THAT(refusal(t, "fuse(steps=2); join_layers(steps=0..1)"), HasSubstr("before any other move"));
  EXPECT_THAT(refusal(t, "join_layers(steps=0..1); join_layers(steps=0..1)"), HasSubstr("it is no product"));
  const task by_an_input = two_layers(R"(a = linear {"input": "x", "weight": "v"}
                                         b = linear {"input": "x", "weight": "i"})",
                                      k_product);
  EXPECT_THAT(refusal(by_an_input, "join_layers(steps=0..1)"), HasSubstr("is no matrix of weights"));
  EXPECT_FALSE(offers(by_an_input, "join_layers"));
  const task of_two_inputs = two_layers(R"(a = linear {"input": "x", "weight": "v"}
                                           b = linear {"input": "z", "weight": "w"})",
                                        k_product);
  EXPECT_FALSE(offers(of_two_inputs, "join_layers"));
}

// What reads the result of the first layer, and the reason for which that cannot be a slice.
struct reader {
  const char *step, *why;
};

TEST(JoinLayers, IsRefusedWhereASliceWouldBeCopied) {
  for (const auto& [step, why] : {reader{R"(r = view {"self": "a", "size": [96]})", "without a copy"},
                                  {R"(r = reshape {"self": "a", "shape": [12, 8]})", "accepted"},
                                  {R"(r = reshape {"self": "a", "shape": [2, 48]})", "it would be a copy"},
                                  {R"(r = view {"self": "a", "size": [2, 6, 2, 4]})", "accepted"},
                                  {R"(r = flatten.using_ints {"self": "a"})", "it would be a copy"},
                                  {R"(r = contiguous {"self": "a"})", "it would be a copy"},
                                  {R"(r = linear {"input": "a", "weight": "u"})", "accepted"},
                                  {R"(r = linear {"input": "a", "weight": "u", "bias": "h"})", "in another pass"},
                                  {R"(r = conv1d {"input": "a", "weight": "k"})", "would copy a"},
                                  {R"(r = softmax.int {"self": "a", "dim": -1})", "accepted"}}) {
    const std::string readers = std::string(step) + R"(
      s = sum {"self": "r"}
      y = mul.Tensor {"self": "b", "other": "s"})";
    EXPECT_THAT(refusal(two_layers(k_layers, readers), "join_layers(steps=0..1)"), HasSubstr(why)) << step;
  }
  EXPECT_THAT(refusal(two_layers(k_layers, k_product, R"(["y", "a"])"), "join_layers(steps=0..1)"),
              HasSubstr("a is an output"));
  EXPECT_THAT(refusal(two_layers(k_layers, R"(r = view {"self": "a", "size": [12, 8]}
                                              s = sum {"self": "r"}
                                              y = mul.Tensor {"self": "b", "other": "s"})",
                                 R"(["y", "r"])"),
                      "join_layers(steps=0..1)"),
              HasSubstr("would make the output r with other strides"));
}

// A part with a joined layer draws its weight as the layers' weights are drawn.
TEST(JoinLayers, HasPartsWithWeightsLikeThoseOfTheLayers) {
  const task t = task_of({"layers",
                          R"("inputs": [{"name": "x", "dtype": "float32", "shape": [6, 16]}],
      "weights": [{"name": "v", "dtype": "float32", "shape": [8, 16], "draw": {"distribution": "normal", "mean": 0, "std": 0.25}},
                  {"name": "w", "dtype": "float32", "shape": [8, 16], "draw": {"distribution": "normal", "mean": 0, "std": 0.25}}])",
                          R"(a = linear {"input": "x", "weight": "v"}
                             b = linear {"input": "x", "weight": "w"}
                             y = mul.Tensor {"self": "a", "other": "b"})",
                          R"(["y"])"});
  const auto layouts = partitions_by_layout(t, for_cpu());
  ASSERT_EQ(layouts.size(), 2U);
  const task& part = layouts[1].ways[0].parts[0].what;
  EXPECT_EQ(calls_of(part.reference.text), "linear ");
  EXPECT_EQ(part.reference.text.weights[0].type.shape, (std::vector<int64_t>{16, 16}));
  EXPECT_EQ(part.weights[0].draw.std, layouts[0].ways[0].parts[0].what.weights[0].draw.std);
}

TEST(JoinLayers, LeavesOutTheLayersThatCannotBeJoined) {
  const task t = two_layers(std::string(k_layers) + R"(
                            d = linear {"input": "x", "weight": "v"})",
                            k_product, R"(["y", "d"])");
  const auto moves = find_move("join_layers")->candidates(graph(t), for_cpu());
  ASSERT_EQ(moves.size(), 1U);
  EXPECT_EQ(print_schedule({moves}), "join_layers(steps=0..1)");
}

}  // namespace
}  // namespace cudal1::test
