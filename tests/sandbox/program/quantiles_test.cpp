// Recorded distributions: reading, and the values that they give.
#include "sandbox/program/quantiles.hpp"

#include <cmath>
#include <numbers>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(quantiles, are_read_in_order_and_otherwise_refused) {
  const json flat(json::parse("[-1, 0, 0, 2.5]").value());
  const auto read = read_quantiles(flat, "here");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(*read, ElementsAre(-1, 0, 0, 2.5));
  for (const auto* wrong : {"[1]", "[1, 0]", "[\"a\", \"b\"]", "{}", "[0, 1e999]"}) {
    const auto parsed = json::parse(wrong);
    if (!parsed) continue;  // no number of JSON
    const auto refused = read_quantiles(*parsed, "here");
    ASSERT_FALSE(refused) << wrong;
    EXPECT_THAT(refused.error().message, HasSubstr("here")) << wrong;
  }
  std::string many = "[0";
  for (int i = 1; i < 130; ++i)
    many += "," + std::to_string(i);
  EXPECT_FALSE(read_quantiles(json::parse(many + "]").value(), "here"));
}

// Of the uniform distribution the k-th is the share that belongs to it.
TEST(quantiles, of_evenly_spread_values_give_the_share_back) {
  constexpr int n = 32;
  std::vector<double> even;
  for (int k = 0; k <= n; ++k)
    even.push_back((1 - std::cos(std::numbers::pi * k / n)) / 2);
  for (const double u : {0.0, 1e-6, 0.01, 0.25, 0.5, 0.77, 0.999, 1.0})
    EXPECT_NEAR(quantile(even, u), u, 2e-3) << u;
  EXPECT_EQ(quantile(even, 0), 0);
  EXPECT_EQ(quantile(even, 1), 1);
  EXPECT_EQ(quantile(even, -1), 0) << "no share of all is below 0";
}

TEST(quantiles, that_are_equal_are_a_value_that_occurs_often) {
  const std::vector<double> behind_a_relu{0, 0, 0, 1, 3};  // half of all are 0
  EXPECT_EQ(quantile(behind_a_relu, 0.1), 0);
  EXPECT_EQ(quantile(behind_a_relu, 0.5), 0);
  EXPECT_GT(quantile(behind_a_relu, 0.6), 0);
  EXPECT_EQ(quantile(behind_a_relu, 1), 3);
  EXPECT_EQ(quantiles_text(behind_a_relu), "as recorded, 0 to 3 with a median of 0");
}

}  // namespace
}  // namespace cudal1
