// Which machines are in a cluster, by a clock that is an argument.
#include "actors/coordinator/membership.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;

class membership_at : public testing::Test {
 protected:
  membership::time_point at(std::chrono::milliseconds ms) const { return begin_ + ms; }
  membership members_{{5s, 15s, 10s}, 100};

 private:
  membership::time_point begin_ = std::chrono::steady_clock::now();
};

TEST_F(membership_at, a_machine_is_present_while_it_is_heard) {
  EXPECT_EQ(*members_.join("b", 1, at(0ms)), membership::admission::first);
  const auto epoch = members_.all().at("b").epoch;
  EXPECT_GT(epoch, 100U);
  EXPECT_TRUE(members_.heard("b", epoch, at(4s)));
  EXPECT_THAT(members_.silent(at(8s)), IsEmpty());
  EXPECT_TRUE(members_.takes_work("b"));
  EXPECT_THAT(members_.silent(at(9500ms)), ElementsAre("b"));
  EXPECT_FALSE(members_.heard("c", epoch, at(4s)));
  EXPECT_FALSE(members_.is_present("c"));
}

TEST_F(membership_at, one_that_joins_has_the_time_in_which_it_waits_for_the_answer) {
  ASSERT_TRUE(members_.join("b", 1, at(0ms)));
  EXPECT_THAT(members_.silent(at(9500ms)), IsEmpty()) << "the answer may be on its way still";
  EXPECT_THAT(members_.silent(at(10500ms)), ElementsAre("b"));
  EXPECT_TRUE(members_.heard("b", members_.all().at("b").epoch, at(9900ms)));
  EXPECT_THAT(members_.silent(at(14800ms)), IsEmpty());
  EXPECT_THAT(members_.silent(at(15s)), ElementsAre("b"));
  ASSERT_TRUE(members_.join("b", 1, at(16s)));
  EXPECT_THAT(members_.silent(at(25s)), IsEmpty()) << "each time that it joins";
}

TEST_F(membership_at, one_that_is_away_may_come_back_until_it_is_absent) {
  ASSERT_TRUE(members_.join("b", 1, at(0ms)));
  const auto epoch = members_.all().at("b").epoch;
  EXPECT_TRUE(members_.lost("b", at(1s)));
  EXPECT_FALSE(members_.lost("b", at(2s))) << "once";
  EXPECT_FALSE(members_.heard("b", epoch, at(2s))) << "it has to join again";
  EXPECT_THAT(members_.newly_absent(at(15s)), IsEmpty());
  EXPECT_THAT(members_.newly_absent(at(16s)), ElementsAre("b"));
  EXPECT_THAT(members_.newly_absent(at(17s)), IsEmpty()) << "once";
  EXPECT_EQ(*members_.join("b", 1, at(20s)), membership::admission::again);
  EXPECT_GT(members_.all().at("b").epoch, epoch);
}

TEST_F(membership_at, another_process_takes_the_name_only_of_one_that_is_not_present) {
  ASSERT_TRUE(members_.join("b", 1, at(0ms)));
  EXPECT_EQ(members_.join("b", 2, at(1s)).error().code, errc::already_exists);
  EXPECT_EQ(*members_.join("b", 1, at(1s)), membership::admission::again) << "its own connection broke unnoticed";
  members_.lost("b", at(2s));
  EXPECT_EQ(*members_.join("b", 2, at(3s)), membership::admission::restarted);
}

TEST_F(membership_at, one_that_drains_or_has_left_takes_no_work) {
  ASSERT_TRUE(members_.join("b", 1, at(0ms)));
  members_.drain("b");
  EXPECT_TRUE(members_.is_present("b"));
  EXPECT_FALSE(members_.takes_work("b"));
  members_.take_work_again("b");
  EXPECT_TRUE(members_.takes_work("b"));
  members_.leaves("b");
  EXPECT_FALSE(members_.takes_work("b"));
  members_.left("b", at(1s));
  EXPECT_FALSE(members_.is_present("b"));
  EXPECT_THAT(members_.silent(at(100s)), IsEmpty());
  EXPECT_THAT(members_.newly_absent(at(100s)), IsEmpty());
  ASSERT_TRUE(members_.join("b", 2, at(101s)));
  EXPECT_TRUE(members_.takes_work("b")) << "the next process of that machine does";
}

}  // namespace
}  // namespace cudal1
