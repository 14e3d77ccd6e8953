// Measures of how well estimates order what was measured.
#include "policy/estimate/estimate_quality.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

namespace cudal1::test {
namespace {

TEST(EstimateQuality, RankCorrelationIsSpearmans) {
  const std::vector<estimated_time> same = {{1, 10}, {2, 200}, {30, 3000}}, reversed = {{3, 1}, {2, 2}, {1, 30}};
  EXPECT_DOUBLE_EQ(rank_correlation(same), 1);
  EXPECT_DOUBLE_EQ(rank_correlation(reversed), -1);
  // 1 - 6 * (1 + 1) / (4 * 15)
  const std::vector<estimated_time> swapped = {{1, 2}, {2, 1}, {3, 3}, {4, 4}};
  EXPECT_DOUBLE_EQ(rank_correlation(swapped), 0.8);
  // Ranks 0, 1.5, 1.5, 3 and 0, 1, 2, 3.
  const std::vector<estimated_time> tied = {{1, 1}, {2, 2}, {2, 3}, {5, 9}};
  EXPECT_NEAR(rank_correlation(tied), 4.5 / std::sqrt(4.5 * 5), 1e-12);
  const std::vector<estimated_time> equal = {{1, 1}, {1, 2}, {1, 3}};
  EXPECT_EQ(rank_correlation(equal), 0);
}

TEST(EstimateQuality, ShareIsThatOfTheBestOfTheFirst) {
  const std::vector<estimated_time> all = {{4, 10}, {1, 40}, {2, 20}, {3, 80}};
  EXPECT_DOUBLE_EQ(share_by_estimate(all, 1), 0.25);
  EXPECT_DOUBLE_EQ(share_by_estimate(all, 2), 0.5);
  EXPECT_DOUBLE_EQ(share_by_estimate(all, 3), 0.5);
  EXPECT_DOUBLE_EQ(share_by_estimate(all, 9), 1);
}

// The same as the mean over all orders.
TEST(EstimateQuality, ShareByChanceIsTheMeanOverAllOrders) {
  const std::vector<estimated_time> all = {{0, 10}, {0, 13}, {0, 25}, {0, 70}, {0, 71}};
  for (std::size_t first = 1; first <= 5; ++first) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    double sum = 0, count = 0;
    do {
      double best = 1e9;
      for (std::size_t i = 0; i < first; ++i)
        best = std::min(best, all[order[i]].measured);
      sum += std::log(10 / best);
      ++count;
    } while (std::next_permutation(order.begin(), order.end()));
    EXPECT_NEAR(share_by_chance(all, first), std::exp(sum / count), 1e-12) << first;
  }
}

}  // namespace
}  // namespace cudal1::test
