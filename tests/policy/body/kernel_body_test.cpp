// What steps become as a kernel: axes, accesses and nodes.
#include "policy/body/kernel_body.hpp"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/body/matrix_product.hpp"
#include "tests/policy/network_text.hpp"

namespace cudal1::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Of all steps of a program of float32 tensors.
expected<kernel_body> body_of(const char* tensors, const char* steps) {
  const task t = task_of({"body", tensors, steps, R"(["y"])"});
  const graph g(t);
  std::vector<int> all(g.steps().size());
  std::iota(all.begin(), all.end(), 0);
  return build_body(g, all);
}

std::vector<body_axis> axes_of(const expected<kernel_body>& made) {
  return made ? made->axes : std::vector<body_axis>();
}

std::vector<int> contractions_of(const kernel_body& body) {
  std::vector<int> out;
  for (std::size_t n = 0; n < body.nodes.size(); ++n)
    if (body.nodes[n].kind == node_kind::contraction) out.push_back(static_cast<int>(n));
  return out;
}

const body_access& access_of(const kernel_body& body, const std::string& value) {
  for (const auto& a : body.accesses)
    if (a.value == value) return a;
  throw std::runtime_error("nothing reads " + value);
}

constexpr const char* k_layer = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [6, 32]}],
  "weights": [{"name": "w", "dtype": "float32", "shape": [8, 32]}, {"name": "v", "dtype": "float32", "shape": [4, 8]}])";

TEST(Bodies, HaveAxesWithRoles) {
  const char* x = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [3, 5, 7]}], "weights": [])";
  EXPECT_THAT(axes_of(body_of(x, R"(y = softmax.int {"self": "x", "dim": 1})")),
              ElementsAre(body_axis{3, axis_role::parallel}, body_axis{7, axis_role::parallel},
                          body_axis{5, axis_role::reduced}));
  EXPECT_THAT(axes_of(body_of(x, R"(y = cumsum {"self": "x", "dim": 2})")),
              ElementsAre(body_axis{15, axis_role::parallel}, body_axis{7, axis_role::sequential}));
  const auto pool = body_of(x, R"(y = max_pool1d {"self": "x", "kernel_size": 3, "stride": 2})");
  EXPECT_THAT(axes_of(pool), ElementsAre(body_axis{15, axis_role::parallel}, body_axis{3, axis_role::parallel},
                                         body_axis{3, axis_role::tap}));
  EXPECT_THAT(access_of(*pool, "x").strides, ElementsAre(7, 2, 1));
  EXPECT_TRUE(access_of(*pool, "x").bounded);
}

TEST(Bodies, HaveAContractionForEachProduct) {
  const auto made = body_of(k_layer, R"(h = linear {"input": "x", "weight": "w"}
                                        y = relu {"self": "h"})");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->axes, ElementsAre(body_axis{6, axis_role::parallel}, body_axis{8, axis_role::parallel},
                                      body_axis{32, axis_role::contracted}));
  ASSERT_EQ(contractions_of(*made).size(), 1U);
  EXPECT_THAT(access_of(*made, "x").strides, ElementsAre(32, 0, 1));
  EXPECT_THAT(access_of(*made, "w").strides, ElementsAre(0, 32, 1));
  EXPECT_TRUE(access_of(*made, "w").constant);
  const auto product = matrix_product_of(*made);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->k, 32);
  EXPECT_TRUE(product->a_nodes.empty());
}

TEST(Bodies, EvaluateWhatIsInFrontOfAProductForEachTerm) {
  const auto made = body_of(k_layer, R"(r = relu {"self": "x"}
                                        y = linear {"input": "r", "weight": "w"})");
  ASSERT_TRUE(made) << made.error().message;
  const auto product = matrix_product_of(*made);
  ASSERT_TRUE(product) << product.error().message;
  ASSERT_EQ(product->a_nodes.size(), 2U);             // the load, and its maximum with 0
  EXPECT_EQ(made->inside_contractions().size(), 3U);  // and B
  EXPECT_THAT(access_of(*made, "x").strides, ElementsAre(32, 0, 1));
}

TEST(Bodies, HaveContractionsOfContractions) {
  const auto made = body_of(k_layer, R"(h = linear {"input": "x", "weight": "w"}
                                        r = relu {"self": "h"}
                                        y = linear {"input": "r", "weight": "v"})");
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_EQ(contractions_of(*made).size(), 2U);
  const auto product = matrix_product_of(*made);
  ASSERT_TRUE(product) << product.error().message;
  EXPECT_EQ(product->k, 8);
  EXPECT_EQ(product->inner_k, 32);
  // Rows, columns, the outer product's k, which is the inner one's n, and the inner one's k.
  EXPECT_THAT(access_of(*made, "w").strides, ElementsAre(0, 0, 32, 1));
}

TEST(Bodies, BuildPartsAtTheirOwnPlaces) {
  const auto made = body_of(k_layer, R"(h = linear {"input": "x", "weight": "w"}
                                        a = slice.Tensor {"self": "h", "dim": 1, "start": 0, "end": 4}
                                        b = slice.Tensor {"self": "h", "dim": 1, "start": 4, "end": 8}
                                        y = mul.Tensor {"self": "a", "other": "b"})");
  ASSERT_TRUE(made) << made.error().message;
  const auto parts = contractions_of(*made);
  ASSERT_EQ(parts.size(), 2U);
  const auto offset_of_b = [&](int n) {
    const body_node& b = made->nodes[static_cast<std::size_t>(made->nodes[static_cast<std::size_t>(n)].operands[1])];
    return made->accesses[static_cast<std::size_t>(b.access)].offset;
  };
  EXPECT_EQ(offset_of_b(parts[0]), 0);
  EXPECT_EQ(offset_of_b(parts[1]), 4 * 32);
  // Both of one A.
  EXPECT_EQ(made->nodes[static_cast<std::size_t>(parts[0])].operands[0],
            made->nodes[static_cast<std::size_t>(parts[1])].operands[0]);
}

TEST(Bodies, RefuseWhatWouldBeComputedTwice) {
  const char* square = R"("inputs": [{"name": "x", "dtype": "float32", "shape": [8, 8]}],
    "weights": [{"name": "w", "dtype": "float32", "shape": [8, 8]}])";
  const auto twice = body_of(square, R"(r = relu {"self": "x"}
                                        h = linear {"input": "r", "weight": "w"}
                                        y = add.Tensor {"self": "h", "other": "r"})");
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("r is computed for a product, in front of it, and read elsewhere"));
}

}  // namespace
}  // namespace cudal1::test
