#include "actors/experiment/ledger.hpp"

#include <set>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using namespace std::chrono_literals;

const ledger::time_point start{};

experiment_record record_with(int64_t evaluations, double time_limit_s = 0) {
  experiment_record r;
  r.id = "e1";
  r.tasks = {"t0", "t1", "t2"};
  r.evaluations_per_task = evaluations;
  r.time_limit_s = time_limit_s;
  r.seed = 7;
  return r;
}

ledger books_of(int64_t evaluations, double time_limit_s = 0) {
  return {record_with(evaluations, time_limit_s), {"a", "b", "c"}, start};
}

verdict verdict_of(outcome result, double score = 0, bool confirmed = false) {
  verdict v;
  v.variant = fmt::format("v{}", score);
  v.result = result;
  v.score = score;
  v.confirmed = confirmed;
  v.stage_ms = {{"check", 2.0}, {"wait", 500.0}};
  return v;
}

TEST(ledger, tasks_take_turns_and_none_falls_behind) {
  auto books = books_of(0);
  std::map<std::size_t, int> turns;
  for (int i = 0; i < 9; ++i)
    ++turns[*books.next_task(start)];
  EXPECT_EQ(turns, (std::map<std::size_t, int>{{0, 3}, {1, 3}, {2, 3}}));
}

TEST(ledger, a_turn_is_as_many_evaluations_in_a_row_as_asked) {
  ledger books(record_with(5), {"a", "b", "c"}, start, 2);
  std::vector<std::size_t> order;
  while (const auto task = books.next_task(start))
    order.push_back(*task);
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 1, 2}));
}

TEST(ledger, a_turn_is_completed_before_another_task_gets_one) {
  ledger books(record_with(0), {"a", "b", "c"}, start, 3);
  EXPECT_EQ(books.next_task(start), std::optional<std::size_t>(0));
  books.settle(0, verdict_of(outcome::correct), start);
  EXPECT_EQ(books.next_task(start), std::optional<std::size_t>(0)) << "a verdict in between changes nothing";
  EXPECT_EQ(books.next_task(start), std::optional<std::size_t>(0));
  EXPECT_EQ(books.next_task(start), std::optional<std::size_t>(1));
}

TEST(ledger, there_is_a_turn_for_each_device) {
  ledger books(record_with(4), {"a", "b", "c"}, start, 2);
  books.count_devices(2);
  std::vector<std::size_t> order;
  while (const auto task = books.next_task(start))
    order.push_back(*task);
  EXPECT_EQ(order, (std::vector<std::size_t>{0, 1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 2}));
}

TEST(ledger, a_task_with_fewer_evaluations_comes_first) {
  auto books = books_of(0);
  for (int i = 0; i < 4; ++i) {
    books.take(0);
    books.settle(0, verdict_of(outcome::correct), start);
  }
  for (int i = 0; i < 4; ++i)
    EXPECT_NE(*books.next_task(start), 0U);
}

TEST(ledger, in_a_limited_time_tasks_get_as_much_of_a_device) {
  auto books = books_of(40, 1000);
  std::map<std::size_t, int> turns;
  for (int i = 0; i < 60; ++i) {
    const auto task = books.next_task(start);
    ASSERT_TRUE(task);
    ++turns[*task];
    verdict v = verdict_of(outcome::correct, 1);
    v.stage_ms = {{"check", *task == 0 ? 900.0 : 100.0}};
    books.settle(*task, v, start);
  }
  EXPECT_EQ(turns[0], 4) << "which took as long as 36 of the others";
  EXPECT_EQ(turns[1], 28);
  EXPECT_EQ(turns[2], 28);
}

TEST(ledger, what_is_in_flight_counts_against_the_budget_of_evaluations) {
  auto books = books_of(1);
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(books.next_task(start));
  EXPECT_FALSE(books.next_task(start));
  EXPECT_FALSE(books.complete(start)) << "three are in flight";
  for (std::size_t task = 0; task < 3; ++task)
    books.settle(task, verdict_of(outcome::correct), start);
  EXPECT_TRUE(books.complete(start));
}

TEST(ledger, an_evaluation_without_a_verdict_returns_to_the_budget) {
  auto books = books_of(1);
  for (int i = 0; i < 3; ++i)
    books.next_task(start);
  books.abandon(1);
  EXPECT_EQ(books.next_task(start), std::optional<std::size_t>(1));
}

TEST(ledger, why_a_task_ended_early_is_in_the_experiments_record) {
  auto books = books_of(5);
  books.next_task(start);
  books.nothing_new(0, "all known");
  books.refuse_task(2, "no memory");
  const auto& tasks = books.record().tasks;
  EXPECT_EQ(books.record().ended,
            (std::map<std::string, std::string>{{tasks[0], "all known"}, {tasks[2], "no memory"}}));
  const ledger resumed(books.record(), {"a", "b", "c"}, start);
  EXPECT_TRUE(ledger(resumed).record().ended.empty()) << "it is tried again";
}

TEST(ledger, time_is_active_time_and_continues_from_the_last_node) {
  auto record = record_with(0, 10);
  record.active_s = 8;
  ledger books(record, {}, start);
  EXPECT_TRUE(books.next_task(start + 1s));
  EXPECT_FALSE(books.next_task(start + 2s));
  EXPECT_FALSE(books.complete(start + 3s)) << "one is in flight";
  books.settle(0, verdict_of(outcome::correct), start + 3s);
  EXPECT_TRUE(books.complete(start + 3s));
  EXPECT_DOUBLE_EQ(books.active_s(start + 3s), 11);
}

TEST(ledger, the_first_budget_to_be_used_up_ends_the_experiment) {
  auto by_time = books_of(100, 1);
  EXPECT_TRUE(by_time.complete(start + 1s));
  auto by_count = books_of(1, 100);
  for (std::size_t task = 0; task < 3; ++task)
    by_count.take(task);
  for (std::size_t task = 0; task < 3; ++task)
    by_count.settle(task, verdict_of(outcome::correct), start);
  EXPECT_TRUE(by_count.complete(start));
}

TEST(ledger, a_task_ends_when_its_evaluations_have_held_devices_for_long_enough) {
  experiment_record record = record_with(0);
  record.device_s_per_task = 0.005;  // each takes 2 ms
  ledger books(record, {"a", "b", "c"}, start);
  std::map<std::size_t, int> taken;
  while (const auto task = books.next_task(start)) {
    ++taken[*task];
    books.settle(*task, verdict_of(outcome::correct), start);
  }
  EXPECT_EQ(taken, (std::map<std::size_t, int>{{0, 3}, {1, 3}, {2, 3}}));
  EXPECT_TRUE(books.complete(start));
  ledger again(record, {"a", "b", "c"}, start);
  tally_record before;
  before.evaluations = 2;
  before.stage_ms = {{"time", 4.0}, {"wait", 500.0}};
  again.resume(0, before);
  ASSERT_EQ(again.next_task(start), std::optional<std::size_t>(1)) << "fewer of its evaluations were taken";
  again.refuse_task(1, "refused");
  again.refuse_task(2, "refused");
  EXPECT_EQ(again.next_task(start), std::optional<std::size_t>(0));
  EXPECT_FALSE(again.next_task(start)) << "the one in flight is taken to need 2 ms too";
}

TEST(ledger, a_task_without_new_proposals_waits_for_those_in_flight_and_is_then_exhausted) {
  auto books = books_of(0);
  books.take(0);
  books.take(0);
  books.nothing_new(0, "known");
  EXPECT_EQ(books.exhausted(0), "") << "one is in flight and may bring a new exemplar";
  for (int i = 0; i < 6; ++i)
    EXPECT_NE(*books.next_task(start), 0U);
  books.settle(0, verdict_of(outcome::correct), start);
  books.take(0);
  books.nothing_new(0, "known");
  EXPECT_EQ(books.exhausted(0), "known");
}

TEST(ledger, only_a_confirmed_score_is_a_best) {
  auto books = books_of(0);
  for (int i = 0; i < 3; ++i)
    books.take(0);
  books.settle(0, verdict_of(outcome::correct, 3, false), start);
  EXPECT_EQ(books.best(0), 0);
  books.settle(0, verdict_of(outcome::correct, 2, true), start);
  books.settle(0, verdict_of(outcome::correct, 1.5, true), start);
  EXPECT_EQ(books.best(0), 2);
}

TEST(ledger, the_best_is_what_is_faster_at_one_pace_of_the_host) {
  auto books = books_of(0);
  const auto settle = [&](const measured_score& m) {
    books.take(0);
    verdict v = verdict_of(outcome::correct, m.score, true);
    static_cast<measured_score&>(v) = m;
    return books.settle(0, v, start);
  };
  EXPECT_TRUE(settle({4.138, {4, 4.3}, 86.995, 19.842, 39.472, 9.664}));
  EXPECT_TRUE(settle({3.76, {3.7, 3.8}, 60.5, 16.1, 39.25, 8.4})) << "the host was faster";
  EXPECT_EQ(books.best(0), 3.76);
  EXPECT_FALSE(settle({3.9, {3.8, 4.0}, 86.995, 22.3, 39.472, 10.2}));
  EXPECT_EQ(books.best(0), 3.76);
}

// Whose interval is from half the score to twice the score.
verdict possible_best(const std::string& variant, double score) {
  verdict v = verdict_of(outcome::correct, score);
  v.variant = variant;
  v.score_interval = {score / 2, score * 2};
  v.stage_ms = {{"check", 2000.0}, {"time", 2000.0}};
  return v;
}

TEST(ledger, a_possible_best_is_measured_again_before_the_time_is_over) {
  auto books = books_of(0, 100);
  books.allow_second_looks();
  for (std::size_t task = 0; task < 3; ++task)
    books.take(task);
  books.settle(0, possible_best("far_ahead", 8), start);
  books.settle(1, possible_best("ahead", 4), start);
  books.settle(2, possible_best("may_be_slower", 1.5), start);
  EXPECT_FALSE(books.next_second_look(start + 10s)) << "there is time for proposals";
  EXPECT_FALSE(books.next_second_look(start + 83s));
  const auto first = books.next_second_look(start + 85s);  // two of 8 s each
  ASSERT_TRUE(first);
  EXPECT_EQ(first->task, 0U);
  EXPECT_EQ(first->variant, "far_ahead");
  const auto second = books.next_second_look(start + 90s);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->variant, "ahead");
  EXPECT_FALSE(books.next_second_look(start + 90s)) << "both are under way";
  verdict confirmed = verdict_of(outcome::correct, 7, true);
  confirmed.variant = "far_ahead";
  EXPECT_TRUE(books.settle(0, confirmed, start + 92s));
  verdict again = possible_best("ahead", 4);
  books.settle(1, again, start + 94s);
  EXPECT_EQ(books.next_second_look(start + 95s)->variant, "ahead") << "a second time";
  again.result = outcome::unmeasurable;
  books.settle(1, again, start + 97s);
  EXPECT_FALSE(books.next_second_look(start + 98s)) << "and no third time";
  verdict noisy = possible_best("noisy", 6);
  noisy.result = outcome::unmeasurable;
  books.take(2);
  books.settle(2, noisy, start + 98s);
  EXPECT_EQ(books.next_second_look(start + 98s)->variant, "noisy") << "it may be measurable the next time";
  books.settle(2, verdict_of(outcome::wrong_answer), start + 99s);
  EXPECT_TRUE(books.complete(start + 100s));
  EXPECT_EQ(books.progress(start + 100s).evaluations, 8);
}

// An export may need the fastest of those that are near eager where it cannot have the fastest of all.
TEST(ledger, the_best_that_is_near_eager_has_second_looks_of_its_own) {
  auto books = books_of(4);
  books.allow_second_looks();
  books.take(0);
  books.settle(0, verdict_of(outcome::correct, 5, true), start);
  verdict near = possible_best("near", 3);
  books.take(0);
  books.settle(0, near, start);
  books.take(0);
  near.near_eager = true;
  EXPECT_FALSE(books.next_second_look(start)) << "slower than the best";
  books.settle(0, near, start);
  const auto look = books.next_second_look(start);
  ASSERT_TRUE(look);
  EXPECT_EQ(look->variant, "near");
  near.confirmed = true;
  EXPECT_FALSE(books.settle(0, near, start)) << "the best is another one";
  EXPECT_EQ(books.best(0), 5);
}

TEST(ledger, the_last_evaluation_of_a_budget_is_for_a_possible_best) {
  auto books = books_of(4);
  books.allow_second_looks();
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(books.next_second_look(start));
    books.take(0);
    books.settle(0, i == 1 ? possible_best("ahead", 3) : verdict_of(outcome::wrong_answer), start);
  }
  ASSERT_TRUE(books.next_second_look(start));
  books.abandon(ledger::second_look{0, "ahead"});
  const auto look = books.next_second_look(start);
  ASSERT_TRUE(look) << "one that was lost is not one that was taken";
  books.settle(0, possible_best("ahead", 3), start);
  EXPECT_FALSE(books.next_second_look(start)) << "the budget is used up";
}

TEST(ledger, a_task_that_has_nothing_more_to_propose_ends_with_second_looks) {
  auto books = books_of(50);
  books.allow_second_looks();
  books.take(0);
  books.settle(0, possible_best("ahead", 3), start);
  for (std::size_t task = 0; task < 3; ++task) {
    books.take(task);
    books.nothing_new(task, "every schedule was tried");
  }
  EXPECT_FALSE(books.complete(start));
  ASSERT_TRUE(books.next_second_look(start));
  verdict slower = possible_best("ahead", 0.9);
  books.settle(0, slower, start);
  EXPECT_TRUE(books.complete(start)) << "it may be no faster, so it is no possible best any more";
}

TEST(ledger, nothing_is_measured_again_unless_that_is_allowed) {
  auto books = books_of(0, 10);
  books.take(0);
  books.settle(0, possible_best("ahead", 3), start);
  EXPECT_FALSE(books.next_second_look(start + 9s));
}

TEST(ledger, progress_adds_up) {
  auto books = books_of(4);
  tally_record earlier;
  earlier.add(verdict_of(outcome::correct, 2, true));
  books.resume(0, earlier);
  tally_record wrong;
  wrong.add(verdict_of(outcome::wrong_answer));
  books.resume(1, wrong);
  books.take(2);
  books.settle(2, verdict_of(outcome::correct, 0.5), start + 1s);
  books.count_fault();
  const auto p = books.progress(start + 2s);
  EXPECT_EQ(p.evaluations, 3);
  EXPECT_EQ(p.planned, 12);
  EXPECT_EQ(p.outcomes, (std::map<std::string, int64_t>{{"correct", 2}, {"wrong_answer", 1}}));
  EXPECT_EQ(p.infrastructure_faults, 1);
  EXPECT_EQ(p.stage_ms.at("check"), 6.0);
  EXPECT_DOUBLE_EQ(p.device_busy, 0.006 / 2) << "waiting is not work of the device";
  EXPECT_DOUBLE_EQ(p.evaluations_per_s, 0.5) << "those read from the store are not of this run";
  EXPECT_EQ(p.tasks[0].best_variant, "v2");
  EXPECT_EQ(p.tasks[1].correct, 0);
}

TEST(ledger, every_proposal_has_its_own_reproducible_seed) {
  auto one = books_of(0), other = books_of(0);
  const auto first = one.next_seed(0);
  EXPECT_EQ(first, other.next_seed(0));
  EXPECT_NE(first, one.next_seed(0));
  EXPECT_NE(first, other.next_seed(1));
}

TEST(ledger, a_stopped_experiment_takes_no_more_turns_and_ends_with_what_is_in_flight) {
  auto books = books_of(0);
  books.take(1);
  books.stop();
  EXPECT_FALSE(books.next_task(start));
  EXPECT_FALSE(books.complete(start));
  books.settle(1, verdict_of(outcome::hang), start);
  EXPECT_TRUE(books.complete(start));
}

TEST(ledger, what_is_not_recorded_returns_to_the_budget) {
  auto books = books_of(1);
  for (int i = 0; i < 3; ++i) {
    books.take(0);
    books.not_recorded(0, 10, "nothing is");
  }
  EXPECT_EQ(books.progress(start).evaluations, 0);
  EXPECT_EQ(books.progress(start).unrecorded, 3);
  std::set<std::size_t> next;
  while (const auto task = books.next_task(start))
    next.insert(*task);
  EXPECT_EQ(next, (std::set<std::size_t>{0, 1, 2}));
}

TEST(ledger, so_many_unrecorded_proposals_in_a_row_end_a_task) {
  auto books = books_of(0);
  for (int i = 0; i < 4; ++i) {
    books.take(0);
    books.not_recorded(0, 3, "it is nowhere");
    if (i != 1) continue;
    books.take(0);
    books.settle(0, verdict_of(outcome::correct), start);
    EXPECT_EQ(books.exhausted(0), "") << "a verdict ends the row";
  }
  EXPECT_EQ(books.exhausted(0), "");
  books.take(0);
  books.not_recorded(0, 3, "it is nowhere");
  EXPECT_EQ(books.exhausted(0), "the last 3 proposals are not recorded; the last one: it is nowhere");
  EXPECT_EQ(books.record().ended.size(), 1U);
}

TEST(ledger, a_parked_task_gets_turns_again_when_nothing_in_flight_is_recorded) {
  auto books = books_of(2);
  books.take(0);
  books.take(0);
  books.nothing_new(0, "no more");
  books.not_recorded(0, 10, "it is nowhere");
  EXPECT_FALSE(books.complete(start));
  EXPECT_EQ(books.next_task(start), std::optional<std::size_t>(0));
}

}  // namespace
}  // namespace cudal1
