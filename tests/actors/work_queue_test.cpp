#include "actors/coordinator/work_queue.hpp"

#include <deque>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using namespace std::chrono_literals;

const work_queue::time_point start{};

message::work_item item(const std::string& variant, const std::string& experiment = "e1", int number = 1) {
  message::work_item w;
  w.device = "cpu";
  w.attempt.experiment = experiment;
  w.attempt.task = "t";
  w.attempt.variant = variant;
  w.attempt.number = number;
  return w;
}

TEST(work_queue, hands_out_only_what_a_device_pulled_in_the_order_of_the_offers) {
  work_queue q(10s);
  q.offer(item("a"), start);
  q.offer(item("b"), start);
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
  q.offer(item("a"), start);
  q.offer(item("b"), start);
  q.idle("cpu");
  const auto first = q.next(start);
  q.idle("cpu");  // late
  EXPECT_FALSE(q.next(start));
  ASSERT_TRUE(q.release(first->item.lease));
  EXPECT_FALSE(q.release(first->item.lease)) << "released twice";
  q.idle("cpu");
  EXPECT_EQ(q.next(start)->item.attempt.variant, "b");
}

TEST(work_queue, a_device_that_has_measured_pulls_while_its_verdict_is_stored) {
  work_queue q(10s);
  q.offer(item("a"), start);
  q.offer(item("b"), start);
  q.idle("cpu");
  const auto first = q.next(start);
  q.measured(first->item.lease, start);
  EXPECT_TRUE(q.overdue(start + 100s).empty()) << "the device is not what takes so long";
  q.idle("cpu");
  const auto second = q.next(start);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->item.attempt.variant, "b");
  EXPECT_EQ(q.leased(), 2U);
  const auto lost = q.drop_device("cpu");
  ASSERT_EQ(lost.size(), 2U) << "neither is certainly stored";
  EXPECT_EQ(q.leased(), 0U);
}

TEST(work_queue, the_same_attempt_is_kept_once) {
  work_queue q(10s);
  q.offer(item("a"), start);
  q.offer(item("a"), start);
  EXPECT_EQ(q.waiting(), 1U);
  q.idle("cpu");
  q.next(start);
  q.offer(item("a"), start);
  EXPECT_EQ(q.waiting(), 0U) << "it is leased";
  q.offer(item("a", "e1", 2), start);
  EXPECT_EQ(q.waiting(), 1U) << "the next attempt is another";
}

TEST(work_queue, a_lease_comes_back_when_its_device_dies) {
  work_queue q(10s);
  q.offer(item("a"), start);
  q.idle("cpu");
  q.next(start);
  const auto lost = q.drop_device("cpu");
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0].attempt.variant, "a");
  EXPECT_EQ(q.leased(), 0U);
  q.offer(item("b"), start);
  EXPECT_FALSE(q.next(start)) << "a dead device pulls nothing";
}

TEST(work_queue, a_lease_that_needs_more_time_is_reported_later) {
  work_queue q(10s);
  q.offer(item("a"), start);
  q.idle("cpu");
  const auto lease = q.next(start)->item.lease;
  q.extend(lease, 1s);
  EXPECT_EQ(q.overdue(start + 10s).size(), 1U) << "never less than the configured limit";
  q.extend(lease, 100s);
  EXPECT_TRUE(q.overdue(start + 99s).empty());
  EXPECT_EQ(q.overdue(start + 100s).size(), 1U);
}

TEST(work_queue, a_deadline_is_reported_and_once_more_a_fifth_later) {
  work_queue q(10s);
  q.offer(item("a"), start);
  q.idle("cpu");
  q.next(start);
  EXPECT_TRUE(q.overdue(start + 9s).empty());
  ASSERT_EQ(q.overdue(start + 10s).size(), 1U);
  EXPECT_TRUE(q.overdue(start + 11s).empty());
  const auto again = q.overdue(start + 12s);
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again.front().second.reports, 2);
  EXPECT_TRUE(q.overdue(start + 1000s).empty());
}

TEST(work_queue, the_queued_work_of_an_ended_experiment_is_removed) {
  work_queue q(10s);
  q.offer(item("a", "e1"), start);
  q.offer(item("b", "e2"), start);
  EXPECT_EQ(q.withdraw("e1").size(), 1U);
  q.idle("cpu");
  EXPECT_EQ(q.next(start)->item.attempt.experiment, "e2");
}

message::work_item item_for(const std::string& devices, const std::string& variant) {
  auto w = item(variant);
  w.device = devices;
  return w;
}

TEST(work_queue, an_evaluation_waits_for_a_device_of_its_experiment_without_blocking_others) {
  work_queue q(10s);
  q.offer(item_for("cuda:1", "a"), start);
  q.offer(item_for("cpu", "b"), start);
  q.offer(item_for("cuda:0,cuda:1", "c"), start);
  q.idle("cpu");
  q.idle("cuda:0");
  const auto first = q.next(start), second = q.next(start);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->item.attempt.variant, "b");
  EXPECT_EQ(first->device, "cpu");
  EXPECT_EQ(second->item.attempt.variant, "c");
  EXPECT_EQ(second->device, "cuda:0");
  EXPECT_FALSE(q.next(start)) << "\"a\" is for a device that is busy";
  q.idle("cuda:1");
  EXPECT_EQ(q.next(start)->item.attempt.variant, "a");
}

message::work_item item_of(const std::string& task, const std::string& variant) {
  auto w = item_for("cuda", variant);
  w.attempt.task = task;
  return w;
}

std::pair<std::optional<work_queue::assignment>, std::optional<work_queue::assignment>> two_tasks_on_two_devices(
    work_queue& q) {
  q.offer(item_of("t1", "a"), start);
  q.offer(item_of("t2", "b"), start);
  q.idle("cuda:0");
  q.idle("cuda:1");
  auto first = q.next(start), second = q.next(start);
  return {std::move(first), std::move(second)};
}

TEST(work_queue, a_task_stays_with_the_device_that_had_it_last) {
  work_queue q(10s);
  const auto [first, second] = two_tasks_on_two_devices(q);
  ASSERT_TRUE(first && second);
  for (const char* variant : {"c", "d"})
    q.offer(item_of(second->item.attempt.task, variant), start);
  q.release(first->item.lease);
  q.idle(first->device);
  EXPECT_FALSE(q.next(start)) << "its device will soon be idle";
  q.offer(item_of("t3", "e"), start);
  EXPECT_EQ(q.next(start)->item.attempt.variant, "e");
  q.release(second->item.lease);
  q.idle(second->device);
  const auto again = q.next(start);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->item.attempt.variant, "c");
  EXPECT_EQ(again->device, second->device);
}

TEST(work_queue, a_device_without_work_takes_what_has_waited_as_long_as_new_draws_take) {
  work_queue q(10s);
  q.offer(item_of("t", "a"), start);
  q.idle("cuda:0");
  ASSERT_TRUE(q.next(start));
  for (const char* variant : {"b", "c", "d"})
    q.offer(item_of("t", variant), start);
  q.idle("cuda:1");
  EXPECT_FALSE(q.next(start + 200ms));
  q.idle("cuda:1");
  const auto taken = q.next(start + 300ms);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->device, "cuda:1");
  EXPECT_EQ(taken->item.attempt.variant, "b");
}

TEST(work_queue, an_evaluation_waits_for_its_devices_longer_if_draws_took_long) {
  work_queue q(100s);
  auto now = start;
  for (int i = 0; i < 20; ++i, now += 2s) {
    q.offer(item_of(fmt::format("t{}", i), "a"), now);
    q.idle("cuda:0");
    const auto next = q.next(now);
    q.measured(next->item.lease, now + 2s);
    q.release(next->item.lease);
  }
  q.offer(item_of("t1", "b"), now);
  q.idle("cuda:0");
  ASSERT_TRUE(q.next(now));
  q.offer(item_of("t1", "c"), now);
  q.idle("cuda:1");
  EXPECT_FALSE(q.next(now + 1s));
  q.idle("cuda:1");
  EXPECT_TRUE(q.next(now + 2s));
}

TEST(work_queue, a_device_prefers_a_task_that_it_has_to_one_that_waits_for_another) {
  work_queue q(10s);
  const auto [first, second] = two_tasks_on_two_devices(q);
  ASSERT_TRUE(first && second);
  q.offer(item_of(first->item.attempt.task, "c"), start);
  q.offer(item_of(second->item.attempt.task, "d"), start);
  q.release(second->item.lease);
  q.idle(second->device);
  EXPECT_EQ(q.next(start + 1s)->item.attempt.variant, "d") << "though the other one was offered before";
}

// Searches that offer another evaluation for each that is measured, which takes 150 ms.
TEST(work_queue, no_device_of_a_thousand_is_idle_for_long_while_evaluations_wait) {
  constexpr int devices = 1000, searches = 16, in_flight = 128, tasks = 30;
  work_queue q(10s);
  int offered = 0;
  auto now = start;
  const auto offer = [&](const std::string& experiment) {
    auto w = item_of("t" + std::to_string(offered % tasks), "v" + std::to_string(offered));
    w.attempt.experiment = experiment;
    q.offer(std::move(w), now);
    ++offered;
  };
  std::map<work_queue::time_point, std::vector<work_queue::assignment>> ends;
  for (int i = 0; i < searches * in_flight; ++i)
    offer("e" + std::to_string(i % searches));
  for (int step = 0; step < 200; ++step, now += 10ms) {
    for (const auto& done : ends[now]) {
      q.release(done.item.lease);
      q.idle(done.device);
      offer(done.item.attempt.experiment);
    }
    for (int i = step % 100; i < devices; i += 100)  // each asks every second
      q.idle(fmt::format("n{}/cuda:{}", i / 8, i % 8));
    while (auto next = q.next(now))
      ends[now + 150ms].push_back(std::move(*next));
  }
  EXPECT_EQ(q.leased(), devices);
  EXPECT_EQ(q.waiting(), searches * in_flight - devices);
}

TEST(work_queue, a_task_does_not_wait_for_a_dead_device) {
  work_queue q(10s);
  q.offer(item_of("t", "a"), start);
  q.idle("cuda:0");
  const auto first = q.next(start);
  ASSERT_TRUE(first);
  q.offer(item_of("t", "b"), start);
  q.idle("cuda:1");
  EXPECT_FALSE(q.next(start));
  q.drop_device("cuda:0");
  EXPECT_EQ(q.next(start)->device, "cuda:1");
}

TEST(work_queue, all_devices_of_an_experiment_pull_its_work_and_a_dead_one_gives_its_lease_to_another) {
  work_queue q(10s);
  for (const char* variant : {"a", "b", "c"})
    q.offer(item_of(std::string("task of ") + variant, variant), start);
  for (const char* device : {"cuda:0", "cuda:1", "cpu"})
    q.idle(device);
  const auto first = q.next(start), second = q.next(start);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->device, second->device);
  EXPECT_FALSE(q.next(start)) << "cpu is not a GPU";
  EXPECT_EQ(q.drop_device("cuda:0").size(), 1U);
  q.release(second->item.lease);
  q.idle("cuda:1");
  EXPECT_EQ(q.next(start)->item.attempt.variant, "c");
  q.idle("cuda:0");
  EXPECT_FALSE(q.next(start));
}

TEST(work_queue, a_task_waits_for_its_device_also_while_that_devices_result_is_stored) {
  work_queue q(10s);
  q.offer(item_of("t", "a"), start);
  q.idle("cuda:0");
  const auto first = q.next(start);
  q.offer(item_of("t", "b"), start);
  q.measured(first->item.lease, start);
  q.idle("cuda:1");
  EXPECT_FALSE(q.next(start)) << "cuda:0 asks in a moment, and has the task's inputs";
  q.idle("cuda:0");
  EXPECT_EQ(q.next(start)->device, "cuda:0");
}

// How often each experiment is on the one device that two share, if an evaluation of theirs takes so long.
std::map<std::string, int> turns_of(work_queue& q, std::chrono::seconds of_e1, std::chrono::seconds of_e2) {
  std::map<std::string, int> turns;
  auto now = start;
  int offered = 0;
  const auto offer = [&](const std::string& experiment) {
    q.offer(item("v" + std::to_string(offered++), experiment), now);
  };
  for (int i = 0; i < 4; ++i) {
    offer("e1");
    offer("e2");
  }
  for (int i = 0; i < 200; ++i) {
    q.idle("cpu");
    const auto next = q.next(now);
    const auto& experiment = next->item.attempt.experiment;
    ++turns[experiment];
    now += experiment == "e1" ? of_e1 : of_e2;
    q.measured(next->item.lease, now);
    q.release(next->item.lease);
    offer(experiment);
  }
  return turns;
}

TEST(work_queue, experiments_share_a_device_by_time_not_by_evaluations) {
  work_queue q(100s);
  const auto turns = turns_of(q, 3s, 1s);
  EXPECT_NEAR(turns.at("e1"), 50, 5);
  EXPECT_NEAR(turns.at("e2"), 150, 5);
}

TEST(work_queue, an_experiment_of_four_times_the_weight_gets_four_times_the_time) {
  work_queue q(100s);
  q.set_weight("e1", 4);
  const auto turns = turns_of(q, 1s, 1s);
  EXPECT_NEAR(turns.at("e1"), 160, 5);
}

TEST(work_queue, an_experiment_that_comes_later_does_not_make_up_for_the_time_before) {
  work_queue q(100s);
  auto now = start;
  const auto evaluate = [&] {
    q.idle("cpu");
    const auto next = q.next(now);
    now += 1s;
    q.measured(next->item.lease, now);
    q.release(next->item.lease);
    return next->item.attempt.experiment;
  };
  for (int i = 0; i < 100; ++i)
    q.offer(item("v" + std::to_string(i), "e1"), start);
  for (int i = 0; i < 40; ++i)
    evaluate();
  for (int i = 0; i < 40; ++i)
    q.offer(item("v" + std::to_string(i), "e2"), now);
  int of_e2 = 0;
  for (int i = 0; i < 20; ++i)
    of_e2 += evaluate() == "e2" ? 1 : 0;
  EXPECT_NEAR(of_e2, 10, 1);
}

TEST(work_queue, a_thousand_devices_are_handed_work_in_microseconds_each) {
  work_queue q(10s);
  constexpr int devices = 1000, tasks = 250, evaluations = 20'000;
  std::deque<uint64_t> leases;
  std::vector<std::string> names;
  for (int i = 0; i < devices; ++i) {
    names.push_back("n" + std::to_string(i / 8) + "/cuda:" + std::to_string(i % 8));
    q.idle(names.back());
  }
  const auto begun = std::chrono::steady_clock::now();
  std::map<uint64_t, std::string> on;
  int handed = 0;
  for (int i = 0; i < evaluations; ++i) {
    const auto now = start + i * 100us;
    q.offer(item_of("t" + std::to_string(i % tasks), "v" + std::to_string(i)), now);
    while (const auto next = q.next(now)) {
      ++handed;
      leases.push_back(next->item.lease);
      on[next->item.lease] = next->device;
    }
    if (leases.size() < devices / 2) continue;
    const uint64_t lease = leases.front();
    leases.pop_front();
    q.measured(lease, now);
    q.idle(on.at(lease));
    q.release(lease);
  }
  const double us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begun).count();
  EXPECT_GT(handed, evaluations / 2);
  RecordProperty("us_per_evaluation", std::to_string(us / handed));
  EXPECT_LT(us / handed, 1000) << "ten thousand a second would take a coordinator's whole time ten times over";
}

}  // namespace
}  // namespace cudal1
