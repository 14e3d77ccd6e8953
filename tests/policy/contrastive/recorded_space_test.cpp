// Recorded spaces as files, and trials on them.
#include "policy/contrastive/recorded_space.hpp"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/search/trial_search.hpp"
#include "tests/policy/contrastive/synthetic_space.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1::test {
namespace {

using testing::HasSubstr;

recorded_space two_tasks() {
  recorded_space out;
  out.tasks = {recorded("softmax", 40, by_blocks), recorded("gated_silu", 30, by_blocks)};
  out.head = head_of(out.tasks);
  return out;
}

TEST(RecordedSpace, IsReadAsItWasWrittenAndNamedByItsContent) {
  temporary_folder folder;
  const std::string path = folder.path() + "/space.jsonl";
  recorded_space written = two_tasks();
  ASSERT_TRUE(write_space(written, path));
  const auto read = value_of(read_space(path));
  EXPECT_EQ(read.sha256, written.sha256);
  EXPECT_EQ(read.head.where.model, "NVIDIA H200");
  ASSERT_EQ(read.tasks.size(), 2u);
  ASSERT_EQ(read.tasks[0].candidates.size(), written.tasks[0].candidates.size());
  EXPECT_EQ(read.tasks[0].candidates[3].ratios, written.tasks[0].candidates[3].ratios);
  written.tasks[0].candidates[3].score += 1;
  ASSERT_TRUE(write_space(written, path));
  EXPECT_NE(value_of(read_space(path)).sha256, read.sha256);
}

TEST(RecordedSpace, ADamagedFileIsRefusedWithItsLine) {
  temporary_folder folder;
  const std::string path = folder.path() + "/space.jsonl";
  recorded_space written = two_tasks();
  ASSERT_TRUE(write_space(written, path));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 10);
  auto read = read_space(path);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, errc::corrupt);
  EXPECT_THAT(read.error().message, HasSubstr("line 3"));
  std::ofstream(path, std::ios::app) << "";
  EXPECT_FALSE(read_space(folder.path() + "/none.jsonl"));
}

TEST(RecordedSpace, DrawnScoresAreMediansOfTheRecordedPairs) {
  const auto t = recorded("softmax", 10, by_blocks);
  uint64_t random = 3;
  double low = 1e9, high = 0;
  const auto& c = t.candidates.front();
  for (int i = 0; i < 200; ++i) {
    const double drawn = drawn_score(c, random);
    low = std::min(low, drawn);
    high = std::max(high, drawn);
  }
  EXPECT_NEAR(low, c.score * std::exp(-0.004), 1e-3);
  EXPECT_NEAR(high, c.score * std::exp(0.004), 1e-3);
  // Two pairs as far above as below: no draw prefers either.
  recorded_candidate even = c;
  even.ratios = {-1000, 1000};
  double sum = 0;
  for (int i = 0; i < 4000; ++i)
    sum += std::log(drawn_score(even, random)) / 4000;
  EXPECT_NEAR(sum, 0, 0.01);
  recorded_candidate failed;
  EXPECT_EQ(drawn_score(failed, random), 0);
}

TEST(RecordedTrial, MeasuresEachCandidateOnceAndGoesOnFromItsState) {
  const auto t = trial_of(recorded("softmax", 40, by_blocks));
  recorded_trial trial(t, 7, {.most = 3, .islands = 2, .island_reset = 4});
  for (std::size_t c = 0; c < 6; ++c) {
    const auto r = trial.next_request();
    EXPECT_LE(r.exemplars.size(), 3u);
    EXPECT_TRUE(std::ranges::is_sorted(r.exemplars, {}, &measured_candidate::score));
    const double score = trial.measure(c).score;
    EXPECT_EQ(trial.measure(c).score, score) << "the same again";
    EXPECT_FALSE(trial.open().test(c));
  }
  EXPECT_EQ(trial.evaluations(), 6u);
  EXPECT_TRUE(std::ranges::is_sorted(trial.best_so_far()));
  recorded_trial other(t, 8, {.most = 3, .islands = 2, .island_reset = 4});
  ASSERT_TRUE(other.set_state(trial.state()));
  EXPECT_EQ(other.state(), trial.state());
  EXPECT_EQ(other.measure(9).score, trial.measure(9).score);
  json bad = trial.state();
  bad.set("candidates", json(json::array{json(int64_t{1}), json(int64_t{1})}));
  EXPECT_FALSE(other.set_state(bad));
}

TEST(RecordedTrial, AnIslandIsLeftWithTheBestOfTheOthers) {
  const auto t = trial_of(recorded("softmax", 60, by_blocks));
  std::size_t good = 0, poor = 0;
  for (std::size_t c = 0; c < t->records.size(); ++c) {
    if (t->records[c].score == t->best) good = c;
    if (t->records[c].score > 0 && t->records[c].score < 1.1) poor = c;
  }
  recorded_trial trial(t, 1, {.most = 4, .islands = 2, .island_reset = 2});
  trial.next_request();
  trial.measure(good);
  EXPECT_TRUE(trial.next_request().exemplars.empty()) << "the other island";
  trial.measure(poor);  // the second evaluation: a reset
  trial.next_request();
  const auto r = trial.next_request();
  ASSERT_EQ(r.exemplars.size(), 1u);
  EXPECT_EQ(r.exemplars.front().candidate, good);
}

TEST(ChooseExemplars, TakesTheBestAndOthersOfDistinctBucketsAscending) {
  std::vector<measured_candidate> measured;
  for (std::size_t i = 0; i < 20; ++i)
    measured.push_back({i, 1 + 0.1 * static_cast<double>(i)});
  measured.push_back({20, 0});
  uint64_t random = 5;
  for (int draw = 0; draw < 50; ++draw) {
    const auto chosen = choose_exemplars(measured, 4, 1, random);
    ASSERT_EQ(chosen.size(), 4u);
    EXPECT_EQ(chosen.back().candidate, 19u);
    std::set<int> buckets;
    for (std::size_t i = 0; i + 1 < chosen.size(); ++i)
      buckets.insert(bucket_of(chosen[i].score));
    EXPECT_EQ(buckets.size(), 3u);
  }
  EXPECT_TRUE(choose_exemplars(measured, 0, 1, random).empty());
  const auto few = choose_exemplars(std::span(measured).last(2), 4, 1, random);
  ASSERT_EQ(few.size(), 2u);
  EXPECT_EQ(few.front().score, 0) << "one that failed, where there is room";
}

// One of n candidates is good: random search finds it after (n + 1) / 2 evaluations in the mean.
TEST(TrialSearch, RandomSearchTakesAsLongAsItMust) {
  const auto one = recorded("softmax", 42, [](const std::string& s) {
    return s == "row_kernel(steps=0); graph(); block(group=0, threads=512)" ? 2.0 : 1.0;
  });
  const trial_tasks tasks = {trial_of(one)};
  const std::size_t n = tasks.front()->candidates.size();
  trial_plan plan;
  plan.seeds = 400;
  plan.evaluations = n;
  const auto curves = value_of(run_trials(tasks, plan, random_step()));
  double mean = 0;
  for (std::size_t s = 0; s < plan.seeds; ++s)
    mean += evaluations_to(0.95, tasks)(curves, 0, s) / static_cast<double>(plan.seeds);
  EXPECT_NEAR(mean, (static_cast<double>(n) + 1) / 2, 2.5);
  EXPECT_NEAR(mean_of(curves, share_after(n, tasks)).value, 1, 1e-9);
  const auto self = mean_ratio(curves, curves, share_after(4, tasks));
  EXPECT_NEAR(self.value, 1, 1e-12);
  EXPECT_LE(self.low, self.value);
}

// Two trainings of two folds, of one and two tasks, two searches each: value 1000 training + 100 fold + 10 task +
// search.
TEST(TrialSearch, TrainingsAndFoldsAreJoinedTaskByTask) {
  const auto part = [](std::size_t training, std::size_t fold) {
    trial_curves out{fold + 1, 2, 1, 1, {}, {}, {}};
    for (std::size_t task = 0; task <= fold; ++task) {
      out.operators.push_back(std::to_string(fold) + std::to_string(task));
      out.folds.push_back(0);
      for (std::size_t search = 0; search < 2; ++search)
        out.values.push_back(static_cast<double>(1000 * (training + 1) + 100 * fold + 10 * task + search));
    }
    return out;
  };
  const auto all = joined({{part(0, 0), part(0, 1)}, {part(1, 0), part(1, 1)}});
  EXPECT_EQ(all.tasks, 3u);
  EXPECT_EQ(all.seeds, 4u);
  EXPECT_EQ(all.trainings, 2u);
  EXPECT_EQ(all.operators, (std::vector<std::string>{"00", "10", "11"}));
  EXPECT_EQ(all.folds, (std::vector<std::size_t>{0, 1, 1}));
  EXPECT_EQ(all.values, (std::vector<double>{1000, 1001, 2000, 2001, 1100, 1101, 2100, 2101, 1110, 1111, 2110, 2111}));
  // Trainings that differ widen the interval.
  const trial_number value = [](const trial_curves& c, std::size_t t, std::size_t s) { return c.at(t, s, 0); };
  auto alike = all;
  alike.trainings = 1;
  for (std::size_t i = 0; i < alike.values.size(); ++i)
    alike.values[i] = 1500;
  EXPECT_NEAR(mean_of(alike, value).high, 1500, 1e-6);
  EXPECT_LT(mean_of(all, value).low, 1150);
  EXPECT_GT(mean_of(all, value).high, 1950);
  EXPECT_LT(mean_ratio(alike, all, value).low, 0.8) << "also where only the other policy has several";
}

TEST(TrialSearch, TheEvolutionaryPolicyFindsTheWholeScheduleFirst) {
  const trial_tasks tasks = {trial_of(recorded("softmax", 60, by_blocks))};
  trial_plan plan;
  plan.seeds = 3;
  plan.evaluations = 20;
  int64_t fallbacks = 0;
  const auto curves = value_of(run_trials(tasks, plan, evolutionary_step(1, fallbacks)));
  EXPECT_GE(mean_of(curves, share_after(4, tasks)).value, 1.2 / 1.8 - 1e-9) << "the graph is in the first schedule";
}

TEST(TrialSearch, TasksOfTheSameOperatorsAreOnOneSide) {
  std::size_t held_out = 0;
  for (int i = 0; i < 300; ++i) {
    const std::string operators = "op" + std::to_string(i);
    int sides = 0;
    for (std::size_t fold = 0; fold < 3; ++fold)
      sides += is_held_out(operators, fold, 3) ? 1 : 0;
    EXPECT_EQ(sides, 1);
    held_out += is_held_out(operators, 0, 3) ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(held_out), 100, 30);
}

}  // namespace
}  // namespace cudal1::test
