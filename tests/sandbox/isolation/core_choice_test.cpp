#include "sandbox/isolation/core_choice.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/thread_cores.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;

// On two of the cores that this machine has.
class core_choice_on_this_machine : public testing::Test {
 protected:
  void SetUp() override {
    if (before_.size() < 2) GTEST_SKIP() << "this machine has only one core";
    first_ = before_.front();
    second_ = before_.back();
    took_us_ = {{first_, 10}, {second_, 10}};
  }
  void TearDown() override { (void)move_this_thread(before_); }

  // A core_choice whose benchmark returns took_us_ of the calling thread's core.
  core_choice choice(std::vector<int> cores) {
    return core_choice(std::move(cores), [this] {
      const int core = cores_of_this_thread().front();
      looked_at_.insert(core);
      return took_us_[core];
    });
  }
  core_choice choice() { return choice({first_, second_}); }

  const std::vector<int> before_ = cores_of_this_thread();
  int first_ = 0, second_ = 0;
  std::map<int, double> took_us_;
  std::set<int> looked_at_;
};

TEST_F(core_choice_on_this_machine, chooses_the_fastest_and_then_keeps_it) {
  took_us_ = {{first_, 15}, {second_, 10}};
  auto c = choice();
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
  looked_at_.clear();
  took_us_ = {{first_, 10}, {second_, 10.5}};
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
  EXPECT_THAT(looked_at_, ElementsAre(second_)) << "the others are not measured";
}

TEST_F(core_choice_on_this_machine, leaves_a_core_that_another_process_uses) {
  took_us_ = {{first_, 10}, {second_, 11}};
  auto c = choice();
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(first_));
  took_us_ = {{first_, 16}, {second_, 10}};
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
}

TEST_F(core_choice_on_this_machine, takes_the_fastest_of_slow_ones) {
  auto c = choice();
  ASSERT_TRUE(c.choose());
  took_us_ = {{first_, 17}, {second_, 16}};
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
}

TEST_F(core_choice_on_this_machine, measures_all_cores_again_after_a_while) {
  took_us_ = {{first_, 16}, {second_, 16.1}};
  auto c = choice();
  ASSERT_TRUE(c.choose());
  took_us_[second_] = 10;
  for (int i = 0; i < 16; ++i)
    ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
}

TEST_F(core_choice_on_this_machine, is_not_misled_by_one_unusually_fast_measurement) {
  auto c = choice();
  for (int i = 0; i < 20; ++i)
    ASSERT_TRUE(c.choose());
  took_us_ = {{first_, 5}, {second_, 5}};
  ASSERT_TRUE(c.choose());
  took_us_ = {{first_, 10}, {second_, 10}};
  looked_at_.clear();
  ASSERT_TRUE(c.choose());
  EXPECT_EQ(looked_at_.size(), 1U);
}

TEST_F(core_choice_on_this_machine, drops_cores_that_may_not_be_used) {
  constexpr int none = 1023;
  if (std::ranges::count(before_, none) > 0) GTEST_SKIP() << "there is a core " << none;
  auto c = choice({none, second_});
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
  EXPECT_FALSE(choice({none, none}).choose());
}

// The shortest of three, as core_choice takes it; alternating, so that both medians see the same load from neighbours.
TEST_F(core_choice_on_this_machine, known_work_does_not_depend_on_earlier_work) {
  ASSERT_TRUE(move_this_thread({first_}));
  const auto look = [] {
    return std::min({core_choice::benchmark_us(), core_choice::benchmark_us(), core_choice::benchmark_us()});
  };
  std::vector<double> after_itself, after_others;
  for (unsigned round = 0; round < 31; ++round) {
    std::vector<unsigned> others(100'000);
    for (unsigned i = 0, state = round; i < others.size(); ++i)
      others[i] = state = state * 1664525U + 1013904223U;
    std::sort(others.begin(), others.end());
    after_others.push_back(look());
    for (int i = 0; i < 20; ++i)
      look();
    after_itself.push_back(look());
  }
  const auto median = [](std::vector<double>& v) {
    std::nth_element(v.begin(), v.begin() + 15, v.end());
    return v[15];
  };
  EXPECT_GT(median(after_itself), 3) << "long enough for the clock's resolution";
  EXPECT_LT(median(after_itself), 300);
  EXPECT_LT(median(after_others), 1.25 * median(after_itself));
}

TEST(core_choice, with_one_core_or_none) {
  const auto before = cores_of_this_thread();
  ASSERT_FALSE(before.empty());
  ASSERT_TRUE(core_choice({}).choose());
  EXPECT_EQ(cores_of_this_thread(), before);
  ASSERT_TRUE(core_choice({before.back()}).choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(before.back()));
  ASSERT_TRUE(move_this_thread(before));
}

}  // namespace
}  // namespace cudal1
