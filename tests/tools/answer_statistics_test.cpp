// The expected values were computed by hand, or by trying all choices.
#include "tools/cli/arms/answer_statistics.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace cudal1::cli {
namespace {

cell_scores cell(std::vector<double> scores, std::string task = "t", uint64_t seed = 1) {
  return {std::move(task), seed, std::move(scores)};
}

TEST(answers, of_which_k_are_drawn_are_correct_as_often_as_all_choices_say) {
  // Of 4 answers 1 is correct: 2 of the 4 choose 2 = 6 pairs lack it in 3.
  const auto c = cell({0, 1.5, 0, 0});
  EXPECT_DOUBLE_EQ(*correct_within(c, 1), 0.25);
  EXPECT_DOUBLE_EQ(*correct_within(c, 2), 0.5);
  EXPECT_DOUBLE_EQ(*correct_within(c, 4), 1);
  EXPECT_FALSE(correct_within(c, 5)) << "there are four";
  EXPECT_DOUBLE_EQ(*correct_within(cell({0, 0}), 2), 0);
  EXPECT_DOUBLE_EQ(*correct_within(cell({2, 2, 0}), 2), 1);
}

TEST(answers, have_the_best_of_k_that_all_choices_have_on_the_mean) {
  const std::vector<double> scores = {0, 4, 0.5, 2, 3};
  const auto c = cell(scores);
  double sum = 0;
  int choices = 0;
  for (std::size_t i = 0; i < scores.size(); ++i)
    for (std::size_t j = 0; j < i; ++j, ++choices)
      sum += std::log(std::max({1.0, scores[i], scores[j]}));
  EXPECT_NEAR(*log_best_within(c, 2), sum / choices, 1e-12);
  EXPECT_NEAR(*log_best_within(c, 5), std::log(4.0), 1e-12);
  EXPECT_NEAR(*log_best_within(c, 1), (std::log(4.0) + std::log(2.0) + std::log(3.0)) / 5, 1e-12)
      << "the reference is in place of what failed or is slower";
  EXPECT_DOUBLE_EQ(*mean_score(c), 9.5 / 5);
  EXPECT_FALSE(mean_score(cell({})));
}

TEST(answers, of_a_search_count_in_their_order) {
  auto c = cell({0, 2, 8});
  c.is_search = true;
  EXPECT_EQ(*correct_within(c, 1), 0);
  EXPECT_EQ(*correct_within(c, 2), 1);
  EXPECT_DOUBLE_EQ(*log_best_within(c, 2), std::log(2.0));
  EXPECT_DOUBLE_EQ(*log_best_within(c, 3), std::log(8.0));
  EXPECT_DOUBLE_EQ(*log_best_within(c, 32), std::log(8.0)) << "there was nothing more to try";
}

TEST(means, over_tasks_and_seeds_have_an_interval_of_both) {
  const auto first = [](const cell_scores& c) { return std::optional(c.scores.front()); };
  const std::vector<cell_scores> alike = {cell({2}, "a"), cell({2}, "b"), cell({2}, "b", 2)};
  const auto same = *mean_over(alike, first);
  EXPECT_EQ(same.value, 2);
  EXPECT_EQ(same.low, 2);
  EXPECT_EQ(same.high, 2);
  // A task with more seeds weighs as much as another.
  const std::vector<cell_scores> two = {cell({0}, "a"), cell({4}, "b"), cell({2}, "b", 2)};
  EXPECT_DOUBLE_EQ(mean_over(two, first)->value, 1.5);
  EXPECT_FALSE(mean_over({}, first));
  // 16 tasks of 0 or 1: the standard error is 1/8, and the interval that of a binomial share.
  std::vector<cell_scores> many;
  for (int i = 0; i < 16; ++i)
    many.push_back(cell({static_cast<double>(i % 2)}, std::to_string(i)));
  const auto share = *mean_over(many, first);
  EXPECT_DOUBLE_EQ(share.value, 0.5);
  EXPECT_NEAR(share.low, 0.25, 0.0626);
  EXPECT_NEAR(share.high, 0.75, 0.0626);
  // One task with two seeds: an interval of seeds alone.
  const std::vector<cell_scores> seeds = {cell({1}, "a", 1), cell({3}, "a", 2)};
  EXPECT_EQ(mean_over(seeds, first)->low, 1);
  EXPECT_EQ(mean_over(seeds, first)->high, 3);
}

TEST(differences, are_of_the_same_tasks_and_seeds) {
  const auto first = [](const cell_scores& c) { return std::optional(c.scores.front()); };
  const std::vector<cell_scores> of = {cell({5}, "a"), cell({100}, "b"), cell({9}, "c")},
                                 to = {cell({99}, "b"), cell({4}, "a"), cell({1}, "c", 2)};
  const auto d = *difference_over(of, to, first);
  EXPECT_EQ(d.value, 1);
  EXPECT_EQ(d.low, 1) << "tasks differ by far more than the arms do";
  EXPECT_EQ(d.high, 1);
  EXPECT_FALSE(difference_over(of, {}, first));
  EXPECT_DOUBLE_EQ(exponential({0, -1, 1}).high, std::exp(1.0));
}

}  // namespace
}  // namespace cudal1::cli
