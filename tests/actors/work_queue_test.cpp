#include "actors/work_queue.hpp"

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using namespace std::chrono_literals;

const work_queue::time_point start{};

message::work_item item(const std::string& variant, const std::string& experiment = "e1", int number = 1) {
  message::work_item w;
  w.attempt.experiment = experiment;
  w.attempt.task = "t";
  w.attempt.variant = variant;
  w.attempt.number = number;
  return w;
}

TEST(work_queue, hands_out_only_what_a_device_pulled_in_the_order_of_the_offers) {
  work_queue q(10s);
  q.offer(item("a"));
  q.offer(item("b"));
  EXPECT_FALSE(q.next(start));
  q.idle("cpu");
  const auto first = q.next(start);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->item.attempt.variant, "a");
  EXPECT_EQ(first->device, "cpu");
  EXPECT_FALSE(q.next(start)) << "the device holds a lease";
}

TEST(work_queue, a_device_with_a_lease_cannot_pull_until_it_is_released) {
  work_queue q(10s);
  q.offer(item("a"));
  q.offer(item("b"));
  q.idle("cpu");
  const auto first = q.next(start);
  q.idle("cpu");  // late
  EXPECT_FALSE(q.next(start));
  ASSERT_TRUE(q.release(first->item.lease));
  EXPECT_FALSE(q.release(first->item.lease)) << "released twice";
  q.idle("cpu");
  EXPECT_EQ(q.next(start)->item.attempt.variant, "b");
}

TEST(work_queue, the_same_attempt_is_kept_once) {
  work_queue q(10s);
  q.offer(item("a"));
  q.offer(item("a"));
  EXPECT_EQ(q.waiting(), 1U);
  q.idle("cpu");
  q.next(start);
  q.offer(item("a"));
  EXPECT_EQ(q.waiting(), 0U) << "it is under way";
  q.offer(item("a", "e1", 2));
  EXPECT_EQ(q.waiting(), 1U) << "the next attempt is another";
}

TEST(work_queue, a_lease_comes_back_when_its_device_dies) {
  work_queue q(10s);
  q.offer(item("a"));
  q.idle("cpu");
  q.next(start);
  const auto lost = q.drop_device("cpu");
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->attempt.variant, "a");
  EXPECT_EQ(q.leased(), 0U);
  q.offer(item("b"));
  EXPECT_FALSE(q.next(start)) << "a dead device pulls nothing";
}

TEST(work_queue, a_deadline_is_reported_and_once_more_after_a_minute) {
  work_queue q(10s);
  q.offer(item("a"));
  q.idle("cpu");
  q.next(start);
  EXPECT_TRUE(q.overdue(start + 9s).empty());
  ASSERT_EQ(q.overdue(start + 10s).size(), 1U);
  EXPECT_TRUE(q.overdue(start + 11s).empty());
  const auto again = q.overdue(start + 71s);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again.front().second.reports, 2);
  EXPECT_TRUE(q.overdue(start + 1000s).empty());
}

TEST(work_queue, what_an_ended_experiment_offered_is_forgotten) {
  work_queue q(10s);
  q.offer(item("a", "e1"));
  q.offer(item("b", "e2"));
  EXPECT_EQ(q.withdraw("e1"), 1U);
  q.idle("cpu");
  EXPECT_EQ(q.next(start)->item.attempt.experiment, "e2");
}

}  // namespace
}  // namespace cudal1
