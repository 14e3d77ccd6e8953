#include "sandbox/process/core_choice.hpp"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/thread_cores.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;

// On the cores that this machine has; two at the least.
class core_choice_on_this_machine : public testing::Test {
 protected:
  void SetUp() override {
    if (before_.size() < 2) GTEST_SKIP() << "there is one core only";
  }
  void TearDown() override { (void)move_this_thread(before_); }

  // The work on the core of the calling thread takes what the test says.
  core_choice choice() {
    return core_choice({first_, second_}, [this] {
      const int core = cores_of_this_thread().front();
      looked_at_.insert(core);
      return took_us_[core];
    });
  }

  const std::vector<int> before_ = cores_of_this_thread();
  const int first_ = before_.front(), second_ = before_.back();
  std::map<int, double> took_us_;
  std::set<int> looked_at_;
};

TEST_F(core_choice_on_this_machine, is_the_fastest_at_first_and_then_stays) {
  took_us_ = {{first_, 15}, {second_, 10}};
  auto c = choice();
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
  looked_at_.clear();
  took_us_ = {{first_, 10}, {second_, 10.5}};
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
  EXPECT_THAT(looked_at_, ElementsAre(second_)) << "the others are not looked at";
}

TEST_F(core_choice_on_this_machine, leaves_a_core_that_somebody_else_uses_too) {
  took_us_ = {{first_, 10}, {second_, 11}};
  auto c = choice();
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(first_));
  took_us_ = {{first_, 16}, {second_, 10}};
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
}

TEST_F(core_choice_on_this_machine, takes_the_fastest_of_slow_ones) {
  took_us_ = {{first_, 10}, {second_, 10}};
  auto c = choice();
  ASSERT_TRUE(c.choose());
  took_us_ = {{first_, 17}, {second_, 16}};
  ASSERT_TRUE(c.choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(second_));
}

TEST_F(core_choice_on_this_machine, known_work_takes_microseconds) {
  core_choice c({first_, second_});
  ASSERT_TRUE(c.choose());
  EXPECT_EQ(cores_of_this_thread().size(), 1U);
  double least = core_choice::known_work_us();
  for (int i = 0; i < 100; ++i)
    least = std::min(least, core_choice::known_work_us());
  EXPECT_GT(least, 2) << "it was not left out, and is long enough for the clock";
  EXPECT_LT(least, 1000);
}

TEST(core_choice, of_one_or_none) {
  const auto before = cores_of_this_thread();
  ASSERT_TRUE(core_choice({}).choose());
  EXPECT_EQ(cores_of_this_thread(), before);
  ASSERT_TRUE(core_choice({before.back()}).choose());
  EXPECT_THAT(cores_of_this_thread(), ElementsAre(before.back()));
  ASSERT_TRUE(move_this_thread(before));
}

}  // namespace
}  // namespace cudal1
