#include "store/replay/replay_source.hpp"

#include <cmath>
#include <set>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "store/exemplars.hpp"
#include "tests/store/replay/replay_fixture.hpp"

namespace cudal1 {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

replaying_options with_seed(int64_t seed) {
  replaying_options o;
  o.seed = seed;
  return o;
}

std::string id_of(const std::string& name) {
  return make_variant(name).id;
}

TEST(replay_source, draws_a_score_from_the_raw_samples) {
  recorded_search search;
  const auto stored = search.add_timed(search.begin(), "fast", 2);
  std::set<double> scores;
  for (int64_t seed = 1; seed <= 20; ++seed) {
    const auto first = search.replay(with_seed(seed)), again = search.replay(with_seed(seed));
    ASSERT_TRUE(holds(first)) << "seed " << seed;
    const auto v = (*first)->draw("task-a", id_of("fast"));
    ASSERT_TRUE(holds(v));
    EXPECT_EQ(v->result, outcome::correct);
    EXPECT_TRUE(v->confirmed);
    EXPECT_GE(v->score, stored.score_interval.low) << "seed " << seed;
    EXPECT_LE(v->score, stored.score_interval.high) << "seed " << seed;
    EXPECT_EQ(v->samples.size(), stored.samples.size());
    EXPECT_EQ(v->score, (*again)->draw("task-a", id_of("fast"))->score) << "seed " << seed;
    scores.insert(v->score);
  }
  EXPECT_GT(scores.size(), 5U) << "another seed draws other times";
}

TEST(replay_source, names_the_verdict_and_that_nothing_was_measured) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  const auto source = search.replay();
  ASSERT_TRUE(holds(source));
  EXPECT_THAT((*source)->draw("task-a", id_of("fast"))->notes,
              Contains(AllOf(HasSubstr("replayed from stored verdicts, not measured"),
                             HasSubstr("attempt 1 of experiment e1"))));
}

TEST(replay_source, replays_failures_as_they_were) {
  recorded_search search;
  const auto e = search.begin();
  for (const auto result : {outcome::compile_error, outcome::refused, outcome::wrong_answer, outcome::hang}) {
    const std::string name = enum_name(result);
    const auto stored = search.add_failed(e, name, result);
    const auto source = search.replay();
    ASSERT_TRUE(holds(source));
    const auto v = (*source)->draw("task-a", id_of(name));
    ASSERT_TRUE(holds(v));
    EXPECT_EQ(v->result, result);
    EXPECT_EQ(v->reason, stored.reason);
    EXPECT_EQ(v->compiler_log, stored.compiler_log);
    EXPECT_EQ(v->gates.size(), 1U);
    EXPECT_EQ(v->score, 0);
  }
}

TEST(replay_source, substitutes_a_verdict_of_the_same_task_where_that_is_asked_for) {
  recorded_search search;
  const auto e = search.begin();
  search.add_timed(e, "fast", 2);
  search.add_timed(e, "slow", 0.5);
  replaying_options o;
  o.substitutes = true;
  const auto source = search.replay(o);
  ASSERT_TRUE(holds(source));
  std::set<double> scores;
  for (int i = 0; i < 20; ++i) {
    const auto id = id_of(fmt::format("unknown {}", i));
    const auto v = (*source)->draw("task-a", id);
    ASSERT_TRUE(holds(v));
    EXPECT_EQ(v->variant, id);
    EXPECT_THAT(v->notes, Contains(HasSubstr("it has the verdict of variant")));
    EXPECT_EQ(v->score, (*source)->draw("task-a", id)->score) << "the same variant, another verdict";
    scores.insert(v->score > 1 ? 2 : 0.5);
  }
  EXPECT_EQ(scores.size(), 2U) << "always the same variant's verdict";
  EXPECT_THAT((*source)->draw("task-a", id_of("fast"))->notes, Not(Contains(HasSubstr("it has the verdict"))));
  EXPECT_FALSE((*source)->draw("task-b", id_of("unknown"))) << "of another task";
}

TEST(replay_source, says_where_it_looked_for_what_is_not_recorded) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  const auto source = search.replay();
  ASSERT_TRUE(holds(source));
  const auto other_variant = (*source)->draw("task-a", id_of("other"));
  ASSERT_FALSE(other_variant);
  EXPECT_EQ(other_variant.error().code, errc::not_found);
  EXPECT_THAT(other_variant.error().message,
              AllOf(HasSubstr("is not recorded"), HasSubstr("a processor (cpu)"), HasSubstr(search.data())));
  EXPECT_EQ((*source)->draw("task-b", id_of("fast")).error().code, errc::not_found);
  EXPECT_TRUE(holds((*source)->draw("", id_of("fast")))) << "any task";
}

TEST(replay_source, draws_one_of_several_verdicts) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  search.add_timed(search.begin(), "fast", 4);
  std::set<int> rounded;
  for (int64_t seed = 1; seed <= 20; ++seed)
    rounded.insert(
        static_cast<int>(std::lround((*search.replay(with_seed(seed)))->draw("task-a", id_of("fast"))->score)));
  EXPECT_THAT(rounded, UnorderedElementsAre(2, 4));
  replaying_options only;
  only.experiment = "e2";
  EXPECT_NEAR((*search.replay(only))->draw("task-a", id_of("fast"))->score, 4, 0.2);
}

TEST(replay_source, replays_one_class_of_environments) {
  recorded_search search;
  const environment gpu{"cuda:0", "NVIDIA H200", "driver 580", "environment-2", "LibTorch 2.11"};
  search.add_timed(search.begin("cuda:0"), "fast", 8, gpu);
  search.add_timed(search.begin(), "fast", 2);
  const auto newest = search.replay();
  ASSERT_TRUE(holds(newest));
  EXPECT_EQ((*newest)->kind(), "cpu");
  EXPECT_NEAR((*newest)->draw("task-a", id_of("fast"))->score, 2, 0.1);
  for (const auto& wanted : {std::string("cuda"), std::string("H200"), environment_class(gpu)}) {
    replaying_options o;
    o.environment = wanted;
    const auto source = search.replay(o);
    ASSERT_TRUE(holds(source)) << wanted;
    EXPECT_EQ((*source)->kind(), "cuda") << wanted;
    EXPECT_NEAR((*source)->draw("task-a", id_of("fast"))->score, 8, 0.4) << wanted;
  }
  replaying_options none;
  none.environment = "A100";
  const auto missing = search.replay(none);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, errc::invalid_argument);
  EXPECT_THAT(missing.error().message, HasSubstr("no measured verdict of an environment \"A100\""));
}

TEST(replay_source, never_replays_what_was_replayed) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  const auto where = (*search.replay())->replayed_on("replay-cpu:0");
  search.add_timed(search.begin("replay-cpu:0"), "fast", 16, where);
  for (int64_t seed = 1; seed <= 10; ++seed)
    EXPECT_NEAR((*search.replay(with_seed(seed)))->draw("task-a", id_of("fast"))->score, 2, 0.1);
  recorded_search empty;
  empty.add_timed(empty.begin("replay-cpu:0"), "fast", 16, where);
  EXPECT_THAT(empty.replay().error().message, HasSubstr("has no measured verdict, so there is nothing to replay"));
}

TEST(replay_source, has_an_environment_of_its_own_that_says_replay) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  const auto where = (*search.replay())->replayed_on("replay-cpu:1");
  EXPECT_EQ(where.device, "replay-cpu:1");
  EXPECT_EQ(where.model, "replay of a processor");
  EXPECT_THAT(where.details, HasSubstr("replayed from stored verdicts, not measured"));
  EXPECT_TRUE(is_replayed(where));
  EXPECT_FALSE(is_replayed(make_environment()));
  EXPECT_NE(environment_class(where), environment_class(make_environment()));
  const auto other_seed = (*search.replay(with_seed(9)))->replayed_on("replay-cpu:0");
  EXPECT_NE(other_seed.id, where.id);
  EXPECT_EQ(environment_class(other_seed), environment_class(where));
  EXPECT_EQ(recorded_model(where.model), "a processor");
}

TEST(replay_source, scales_the_recorded_latencies) {
  recorded_search search;
  search.add_timed(search.begin(), "fast", 2);
  replaying_options half;
  half.latency = 0.5;
  EXPECT_THAT((*search.replay(half))->draw("task-a", id_of("fast"))->stage_ms,
              UnorderedElementsAre(Pair("compile", 100), Pair("open", 5), Pair("check", 10), Pair("time", 20)));
  EXPECT_THAT((*search.replay())->draw("task-a", id_of("fast"))->stage_ms, Contains(Pair("time", 0)));
}

TEST(replay_source, needs_a_store) {
  replaying_options o;
  o.source = "/does/not/exist";
  const auto source = replay_source::open(o, "/tmp");
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code, errc::invalid_argument);
  EXPECT_THAT(source.error().message, AllOf(HasSubstr("replay.source"), HasSubstr("/does/not/exist")));
}

// ---- in the store of the replaying node ----------------------------------------------------------------------------

TEST(replayed_verdicts, are_ranked_in_their_experiment_only) {
  recorded_search search;
  const auto measured = search.begin();
  search.add_timed(measured, "slow", 1.5);
  const auto where = (*search.replay())->replayed_on("replay-cpu:0");
  const auto replayed = search.begin("replay-cpu:0");
  search.add_timed(replayed, "fast", 16, where);
  auto& s = search.records();
  const auto over_all = s.best("task-a", 9, store::ranking::all);
  ASSERT_TRUE(holds(over_all));
  ASSERT_EQ(over_all->size(), 1U);
  EXPECT_EQ(over_all->front().variant.id, id_of("slow"));
  EXPECT_EQ(s.best("task-a", 9, store::ranking::confirmed, replayed)->front().variant.id, id_of("fast"));
}

TEST(replayed_verdicts, are_no_exemplars_of_the_measured_class) {
  recorded_search search;
  search.add_timed(search.begin(), "slow", 1.5);
  const auto where = (*search.replay())->replayed_on("replay-cpu:0");
  search.add_timed(search.begin("replay-cpu:0"), "fast", 16, where);
  exemplar_query q;
  q.task = "task-a";
  q.correct = 10;
  for (const auto& [known_as, name] :
       {std::pair{environment_class(make_environment()), "slow"}, std::pair{environment_class(where), "fast"}}) {
    q.environment_class = known_as;
    const auto drawn = search.records().sample_exemplars(q);
    ASSERT_TRUE(holds(drawn));
    ASSERT_EQ(drawn->correct.size(), 1U) << name;
    EXPECT_EQ(drawn->correct.front().variant.id, id_of(name));
  }
}

TEST(unrecorded_attempts, are_over_and_are_no_losses) {
  recorded_search search;
  const auto e = search.begin("replay-cpu:0");
  auto& s = search.records();
  const auto a = s.reserve(make_variant("unknown"), e);
  ASSERT_TRUE(holds(a));
  ASSERT_TRUE(holds(s.lose(*a, "it is not recorded", store::loss::unrecorded)));
  EXPECT_TRUE(s.unfinished_attempts(e)->empty()) << "it is not repeated when the experiment is resumed";
  const auto all = s.attempts(e);
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(all->front().state, attempt_state::unrecorded);
  EXPECT_EQ(all->front().note, "it is not recorded");
  const auto tallies = s.tallies(e);
  ASSERT_EQ(tallies->size(), 1U);
  EXPECT_EQ(tallies->front().unrecorded, 1);
  EXPECT_EQ(tallies->front().lost, 0);
  EXPECT_EQ(tallies->front().evaluations, 0);
  EXPECT_TRUE(*s.has_attempt(e, "task-a", id_of("unknown"))) << "the policy proposes something else";
  EXPECT_EQ(s.commit(*a, make_verdict(*a, 2), make_environment()).error().code, errc::cancelled);
}

}  // namespace
}  // namespace cudal1
