#include "store/store.hpp"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "store/ranking_scopes.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

std::unique_ptr<store> open(const store_folder& f) {
  auto s = store::open(f.store());
  EXPECT_TRUE(holds(s));
  return s ? std::move(*s) : nullptr;
}

TEST(store, keeps_every_record_as_it_was_given) {
  store_folder folder;
  auto s = open(folder);
  const task_record t{"id-1", "softmax", "a row softmax", "normalization", "cpu", "{\"format\": 1}"};
  ASSERT_TRUE(holds(s->put_task(t)));
  experiment_record e;
  e.device = "cpu";
  e.policy = "random";
  e.tasks = {"id-1"};
  e.seed = 0xfedcba9876543210;
  e.time_limit_s = 0.1;
  const auto created = s->create_experiment(e);
  ASSERT_TRUE(holds(created));
  EXPECT_EQ(created->id, "e1");
  ASSERT_TRUE(holds(s->put_policy("learned", {7, std::string("a\0b\xff", 4)})));
  s.reset();

  s = open(folder);
  EXPECT_EQ(to_text(s->get_task("id-1").value()), to_text(t));
  EXPECT_EQ(s->tasks().value().size(), 1u);
  EXPECT_EQ(to_text(s->get_experiment("e1").value()), to_text(*created));
  EXPECT_EQ(s->get_experiment("e1").value().seed, e.seed);
  EXPECT_EQ(s->create_experiment(e).value().id, "e2");
  auto changed = *created;
  changed.state = experiment_state::finished;
  ASSERT_TRUE(holds(s->update_experiment(changed)));
  EXPECT_EQ(s->experiments().value().front().state, experiment_state::finished);
  const auto policy = s->get_policy("learned");
  ASSERT_TRUE(holds(policy));
  EXPECT_EQ(policy->version, 7);
  EXPECT_EQ(policy->blob, std::string("a\0b\xff", 4));
}

TEST(store, missing_records_are_not_found) {
  store_folder folder;
  auto s = open(folder);
  EXPECT_EQ(s->get_task("x").error().code, errc::not_found);
  EXPECT_EQ(s->get_variant("x").error().code, errc::not_found);
  EXPECT_EQ(s->get_policy("x").error().code, errc::not_found);
  EXPECT_EQ(s->get_environment("x").error().code, errc::not_found);
  EXPECT_EQ(s->get_experiment("e7").error().code, errc::not_found);
  EXPECT_EQ(s->get_experiment("seven").error().code, errc::not_found);
  EXPECT_EQ(s->update_experiment({}).error().code, errc::not_found);
}

TEST(store, a_verdict_is_the_same_after_reopening_to_the_last_bit) {
  store_folder folder;
  auto s = open(folder);
  const auto a = s->reserve(make_variant("v"), "e1");
  ASSERT_TRUE(holds(a));
  verdict v = make_full_verdict(*a, 42);
  v.samples[0].reference_us = std::numeric_limits<double>::denorm_min();
  v.samples[1].variant_us = std::numeric_limits<double>::max();
  ASSERT_TRUE(holds(s->commit(*a, v, make_environment())));
  s.reset();

  s = open(folder);
  const auto back = s->verdicts_of_variant(a->variant);
  ASSERT_TRUE(holds(back));
  ASSERT_EQ(back->size(), 1u);
  EXPECT_EQ(to_text(back->front()), to_text(v));
  for (std::size_t i = 0; i < v.samples.size(); ++i) {
    EXPECT_EQ(back->front().samples[i].reference_us, v.samples[i].reference_us);
    EXPECT_EQ(back->front().samples[i].variant_us, v.samples[i].variant_us);
  }
  EXPECT_EQ(back->front().checks[0].draw.seed, v.checks[0].draw.seed);
  EXPECT_TRUE(std::signbit(back->front().checks[0].outputs[0].worst_expected));
  EXPECT_EQ(s->get_environment("environment-1").value().model, "a processor");
  EXPECT_EQ(to_text(s->get_variant(a->variant).value().trace), to_text(make_variant("v").trace));
}

TEST(store, baselines_of_a_task_are_kept_with_their_samples_and_environment_and_none_replaces_another) {
  store_folder folder;
  auto s = open(folder);
  baseline_record b;
  b.task = "id-1";
  b.kind = "eager";
  b.torch = "torch 2.11.0";
  b.seed = 0xfedcba9876543210;
  b.call_us = 0.1;
  b.call_samples = {0.1, 1.0 / 3, std::numeric_limits<double>::denorm_min()};
  b.program_ratio_interval = {1.25, 1.5};
  b.notes = {"throttled"};
  b.time_unix_ms = 1764000000000;
  ASSERT_TRUE(holds(s->put_baseline(b, make_environment())));
  baseline_record again = b;
  again.call_us = 0.2;
  again.time_unix_ms += 1;
  ASSERT_TRUE(holds(s->put_baseline(again, make_environment())));
  baseline_record other = b;
  other.task = "id-10";
  other.kind = "reduce-overhead";
  other.time_unix_ms = 0;
  ASSERT_TRUE(holds(s->put_baseline(other, make_environment())));
  s.reset();

  s = open(folder);
  const auto back = s->baselines_of_task("id-1");
  ASSERT_TRUE(holds(back));
  ASSERT_EQ(back->size(), 2u);
  b.environment_id = again.environment_id = make_environment().id;
  EXPECT_EQ(to_text(back->at(0)), to_text(b));
  EXPECT_EQ(to_text(back->at(1)), to_text(again));
  EXPECT_EQ(back->at(0).seed, b.seed);
  EXPECT_GT(s->baselines_of_task("id-10").value().at(0).time_unix_ms, b.time_unix_ms) << "the store added the time";
  EXPECT_TRUE(s->baselines_of_task("id-2").value().empty());
  EXPECT_EQ(s->get_environment("environment-1").value().model, "a processor");
}

TEST(store, judged_files_of_a_task_are_listed_best_first_and_replaced_by_their_source) {
  store_folder folder;
  auto s = open(folder);
  const auto file = [](const std::string& task, const std::string& source, double speedup) {
    judged_file f;
    f.task = task;
    f.model = "a GPU";
    f.source = source;
    f.correct = speedup > 0;
    f.speedup = speedup;
    if (!f.correct) f.kind = "memo";
    f.evidence = {"it kept what it had computed"};
    f.time_unix_ms = 1764000000000;
    return with_id(std::move(f));
  };
  for (const auto& f :
       {file("id-1", "slow", 1.1), file("id-1", "fast", 2), file("id-1", "hack", 0), file("id-10", "x", 3)})
    ASSERT_TRUE(holds(s->put_judged_file(f)));
  auto again = file("id-1", "slow", 1.2);
  again.time_unix_ms = 0;
  ASSERT_TRUE(holds(s->put_judged_file(again)));
  EXPECT_EQ(s->put_judged_file({}).error().code, errc::invalid_argument);
  s.reset();

  s = open(folder);
  const auto back = s->judged_files("id-1");
  ASSERT_TRUE(holds(back));
  ASSERT_EQ(back->size(), 3u);
  EXPECT_EQ(to_text(back->at(0)), to_text(file("id-1", "fast", 2)));
  EXPECT_EQ(back->at(1).speedup, 1.2) << "the same source was judged again";
  EXPECT_GT(back->at(1).time_unix_ms, 1764000000000) << "the store added the time";
  EXPECT_TRUE(is_hack(back->at(2)));
  EXPECT_EQ(s->judged_files("").value().size(), 4u);
  EXPECT_TRUE(s->judged_files("id-2").value().empty());
  auto elsewhere = file("id-1", "slow", 1.2);
  elsewhere.model = "another GPU";
  EXPECT_NE(with_id(elsewhere).id, again.id);
}

TEST(store, a_best_that_was_measured_again_by_its_program_alone_keeps_its_schedule) {
  store_folder folder;
  auto s = open(folder);
  const auto a = s->reserve(make_variant("v"), "e1").value();
  auto v = make_verdict(a, 2, true);
  v.time_unix_ms = 1;
  ASSERT_TRUE(holds(s->commit(a, v, make_environment())));
  auto again = make_variant("v");
  again.schedule = "";
  again.origin = "hand";
  const auto b = s->reserve(again, "e2").value();
  auto newer = make_verdict(b, 1.9, true);
  newer.time_unix_ms = 2;
  ASSERT_TRUE(holds(s->commit(b, newer, make_environment())));
  const auto best = s->best("task-a", 10, store::ranking::confirmed, "");
  ASSERT_TRUE(holds(best));
  ASSERT_EQ(best->size(), 1u);
  EXPECT_EQ(best->front().result.score, 1.9) << "the newer verdict counts";
  EXPECT_EQ(best->front().variant.schedule, make_variant("v").schedule);
  EXPECT_EQ(best->front().variant.origin, "policy random");
}

TEST(store, a_baseline_of_an_unknown_kind_or_of_another_environment_is_refused) {
  store_folder folder;
  auto s = open(folder);
  baseline_record b;
  b.task = "id-1";
  b.kind = "fastest";
  EXPECT_EQ(s->put_baseline(b, make_environment()).error().code, errc::invalid_argument);
  b.kind = "eager";
  b.environment_id = "environment-2";
  EXPECT_EQ(s->put_baseline(b, make_environment()).error().code, errc::invalid_argument);
  b.environment_id = "";
  EXPECT_EQ(s->put_baseline(b, {}).error().code, errc::invalid_argument);
  EXPECT_TRUE(s->baselines_of_task("id-1").value().empty());
}

TEST(store, a_compiler_log_that_is_not_utf8_does_not_break_a_verdict) {
  store_folder folder;
  auto s = open(folder);
  const auto a = s->reserve(make_variant("v"), "e1").value();
  verdict v = make_verdict(a, 0);
  v.compiler_log = "bad \xff\xc0\x80 caf\xc3\xa9 \xed\xa0\x80";
  ASSERT_TRUE(holds(s->commit(a, v, make_environment())));
  const auto back = s->verdicts_of_variant(a.variant);
  ASSERT_TRUE(holds(back));
  EXPECT_EQ(back->front().compiler_log.substr(0, 4), "bad ");
  EXPECT_NE(back->front().compiler_log.find("caf\xc3\xa9"), std::string::npos);
  auto binary = make_variant("w");
  binary.program += '\xff';
  EXPECT_EQ(s->reserve(binary, "e1").error().code, errc::invalid_argument);
}

// ---- attempts -------------------------------------------------------------------------------------------------------

TEST(store, a_variant_is_reserved_once_at_a_time_and_never_after_its_verdict) {
  store_folder folder;
  auto s = open(folder);
  const auto v = make_variant("v");
  const auto a = s->reserve(v, "e1");
  ASSERT_TRUE(holds(a));
  EXPECT_EQ(a->number, 1);
  EXPECT_EQ(s->reserve(v, "e1").error().code, errc::already_exists);
  EXPECT_TRUE(holds(s->reserve(v, "e2"))) << "another experiment may";
  ASSERT_TRUE(holds(s->commit(*a, make_verdict(*a, 2), make_environment())));
  EXPECT_EQ(s->reserve(v, "e1").error().code, errc::already_exists);
  EXPECT_TRUE(s->has_attempt("e1", v.task, v.id).value());
  EXPECT_TRUE(s->has_attempt("e2", v.task, v.id).value());
  EXPECT_FALSE(s->has_attempt("e3", v.task, v.id).value());
  EXPECT_EQ(s->attempts("e1").value().front().state, attempt_state::finished);
}

TEST(store, a_second_commit_changes_nothing) {
  store_folder folder;
  auto s = open(folder);
  const auto a = s->reserve(make_variant("v"), "e1").value();
  ASSERT_TRUE(holds(s->commit(a, make_verdict(a, 2), make_environment())));
  const auto events = s->events_after(0, 100).value().size();
  ASSERT_TRUE(holds(s->commit(a, make_verdict(a, 3), make_environment())));
  EXPECT_EQ(s->verdicts_of_variant(a.variant).value().size(), 1u);
  EXPECT_EQ(s->best("task-a", 10, store::ranking::all).value().front().result.score, 2);
  EXPECT_EQ(s->events_after(0, 100).value().size(), events);
}

TEST(store, two_lost_attempts_are_the_variants_fault_and_can_be_quarantined) {
  store_folder folder;
  auto s = open(folder);
  const auto v = make_variant("v");
  const auto first = s->reserve(v, "e1").value();
  ASSERT_TRUE(holds(s->lose(first, "the runner's machine went away", store::loss::on_device)));
  ASSERT_TRUE(holds(s->lose(first, "lost twice", store::loss::on_device))) << "idempotent";
  const auto second = s->reserve(v, "e1");
  ASSERT_TRUE(holds(second));
  EXPECT_EQ(second->number, 2);
  EXPECT_EQ(s->commit(first, make_verdict(first, 2), make_environment()).error().code, errc::cancelled)
      << "a lost attempt's verdict comes too late";
  ASSERT_TRUE(holds(s->lose(*second, "again", store::loss::on_device)));
  const auto third = s->reserve(v, "e1");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, errc::variant_fault);
  EXPECT_NE(third.error().message.find("went away"), std::string::npos) << third.error().message;
  EXPECT_TRUE(holds(s->reserve(v, "e2"))) << "losses count in their own experiment";

  verdict q = make_verdict(*second, 0);
  q.result = outcome::quarantined;
  ASSERT_TRUE(holds(s->commit(*second, q, make_environment())));
  EXPECT_EQ(s->reserve(v, "e1").error().code, errc::already_exists);
  const auto all = s->attempts("e1").value();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].state, attempt_state::lost);
  EXPECT_EQ(all[0].note, "the runner's machine went away");
  EXPECT_EQ(all[1].state, attempt_state::lost);
  EXPECT_EQ(all[2].state, attempt_state::finished);
  EXPECT_EQ(s->verdicts_of_variant(v.id).value().front().result, outcome::quarantined);
}

TEST(store, a_withdrawn_attempt_is_no_loss_and_can_be_made_again) {
  store_folder folder;
  auto s = open(folder);
  const auto v = make_variant("v");
  const auto first = s->reserve(v, "e1").value();
  ASSERT_TRUE(holds(s->lose(first, "the experiment ended", store::loss::withdrawn)));
  EXPECT_EQ(s->commit(first, make_verdict(first, 2), make_environment()).error().code, errc::cancelled);
  EXPECT_TRUE(s->tallies("e1").value().empty());
  const auto unfinished = s->unfinished_attempts("e1").value();
  ASSERT_EQ(unfinished.size(), 1u);
  EXPECT_EQ(unfinished[0].state, attempt_state::withdrawn);
  for (int i = 0; i < 25; ++i) {
    const auto again = s->reserve(v, "e1");
    ASSERT_TRUE(holds(again)) << i;
    ASSERT_TRUE(holds(s->lose(*again, "the experiment ended", store::loss::withdrawn)));
  }
  const auto last = s->reserve(v, "e1").value();
  EXPECT_TRUE(holds(s->commit(last, make_verdict(last, 2), make_environment())));
}

TEST(store, losses_that_the_variant_cannot_have_caused_do_not_count_until_there_are_many) {
  store_folder folder;
  const auto v = make_variant("v");
  int losses = 0;
  for (; losses < 14; ++losses) {
    auto s = open(folder);
    ASSERT_TRUE(holds(s->reserve(v, "e1"))) << "the writer has died " << losses << " times";
  }
  auto s = open(folder);
  ASSERT_TRUE(holds(s->lose(s->reserve(v, "e1").value(), "it crashed", store::loss::on_device)));
  for (++losses; losses < 20; ++losses) {
    const auto a = s->reserve(v, "e1");
    ASSERT_TRUE(holds(a)) << losses;
    ASSERT_TRUE(holds(s->lose(*a, "the disk is full", store::loss::elsewhere)));
  }
  EXPECT_EQ(s->reserve(v, "e1").error().code, errc::variant_fault) << "it is not tried for ever";
}

TEST(store, only_what_was_in_flight_is_lost_when_the_writer_ends) {
  store_folder folder;
  auto s = open(folder);
  const auto done = s->reserve(make_variant("done"), "e1").value();
  ASSERT_TRUE(holds(s->commit(done, make_verdict(done, 2), make_environment())));
  const auto flying = s->reserve(make_variant("flying"), "e1").value();
  s.reset();
  s = open(folder);
  const auto attempts = s->attempts("e1").value();
  for (const auto& a : attempts) {
    EXPECT_EQ(a.state, a.variant == flying.variant ? attempt_state::lost : attempt_state::finished);
    if (a.variant == flying.variant) {
      EXPECT_EQ(a.note, "the node ended while it was in flight");
    }
  }
  EXPECT_EQ(s->reserve(make_variant("done"), "e1").error().code, errc::already_exists);
  EXPECT_EQ(s->reserve(make_variant("flying"), "e1").value().number, 2);
}

TEST(store, an_attempt_that_was_never_reserved_cannot_end) {
  store_folder folder;
  auto s = open(folder);
  const attempt_record a{"e1", "task-a", make_variant("v").id, 1, attempt_state::leased, "", 0};
  EXPECT_EQ(s->commit(a, make_verdict(a, 2), make_environment()).error().code, errc::not_found);
  EXPECT_EQ(s->lose(a, "x", store::loss::on_device).error().code, errc::not_found);
  verdict other = make_verdict(a, 2);
  other.variant = "another";
  EXPECT_EQ(s->commit(a, other, make_environment()).error().code, errc::invalid_argument);
}

// ---- the best -------------------------------------------------------------------------------------------------------

void evaluate(store& s, const std::string& name, double score, bool confirmed, const std::string& experiment = "e1",
              int64_t time = 0) {
  const auto a = s.reserve(make_variant(name), experiment);
  ASSERT_TRUE(holds(a));
  verdict v = make_verdict(*a, score, confirmed);
  v.time_unix_ms = time;
  ASSERT_TRUE(holds(s.commit(*a, v, make_environment())));
}

TEST(store, best_ranks_correct_variants_by_score) {
  store_folder folder;
  auto s = open(folder);
  evaluate(*s, "slow", 0.5, false);
  evaluate(*s, "wrong", 0, false);
  evaluate(*s, "fast", 3.25, true);
  evaluate(*s, "huge", 120, false);
  evaluate(*s, "middle", 1.5, true);
  const auto all = s->best("task-a", 10, store::ranking::all).value();
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].result.score, 120);
  EXPECT_EQ(all[1].result.score, 3.25);
  EXPECT_EQ(all[1].variant.id, make_variant("fast").id);
  EXPECT_EQ(all[3].result.score, 0.5);
  EXPECT_EQ(s->best("task-a", 2, store::ranking::all).value().size(), 2u);
  const auto confirmed = s->best("task-a", 10, store::ranking::confirmed).value();
  ASSERT_EQ(confirmed.size(), 2u);
  EXPECT_EQ(confirmed[0].result.score, 3.25);
  EXPECT_TRUE(s->best("task-b", 10, store::ranking::all).value().empty());
  EXPECT_EQ(s->verdicts_of_task("task-a").value().size(), 5u);
}

TEST(store, ranks_confirmed_variants_that_are_near_eager_apart) {
  store_folder folder;
  auto s = open(folder);
  evaluate(*s, "fast", 3, true);
  for (const bool confirmed : {false, true}) {
    const auto a = s->reserve(make_variant(confirmed ? "near" : "perhaps"), "e1");
    ASSERT_TRUE(holds(a));
    verdict v = make_verdict(*a, 2, confirmed);
    v.near_eager = true;
    ASSERT_TRUE(holds(s->commit(*a, v, make_environment())));
  }
  const auto near = s->best("task-a", 10, store::ranking::near_eager, "e1").value();
  ASSERT_EQ(near.size(), 1u);
  EXPECT_EQ(near[0].variant.id, make_variant("near").id);
  EXPECT_TRUE(near[0].result.near_eager);
  EXPECT_EQ(s->best("task-a", 10, store::ranking::confirmed).value().size(), 2u);
}

TEST(store, best_compares_at_one_pace_of_the_host) {
  store_folder folder;
  auto s = open(folder);
  const auto measure = [&](const std::string& name, const measured_score& m) {
    const auto a = s->reserve(make_variant(name), "e1");
    ASSERT_TRUE(holds(a));
    verdict v = make_verdict(*a, m.score, true);
    static_cast<measured_score&>(v) = m;
    ASSERT_TRUE(holds(s->commit(*a, v, make_environment())));
  };
  measure("when the host was slow", {4.138, {4, 4.3}, 86.995, 19.842, 39.472, 9.664});
  measure("when it was fast", {3.76, {3.7, 3.8}, 60.5, 16.1, 39.25, 8.4});
  evaluate(*s, "without device times", 3.0, true);
  const auto best = s->best("task-a", 10, store::ranking::confirmed).value();
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].variant.id, make_variant("when it was fast").id);
  EXPECT_EQ(best[0].result.score, 3.76) << "the score stays as it was measured";
  EXPECT_EQ(best[2].result.score, 3.0);
  EXPECT_EQ(s->best("task-a", 1, store::ranking::confirmed).value().front().variant.id, best[0].variant.id);
}

// So that no table or mean has verdicts of two accuracies.
TEST(store, what_was_accepted_in_half_precision_has_a_ranking_of_its_own) {
  store_folder folder;
  auto s = open(folder);
  const auto measure = [&](const std::string& name, double score, accuracy held, const std::string& experiment) {
    const auto a = s->reserve(make_variant(name), experiment);
    ASSERT_TRUE(holds(a));
    verdict v = make_verdict(*a, score, true);
    const environment where = held_to(make_environment(), held);
    v.environment_id = where.id;
    ASSERT_TRUE(holds(s->commit(*a, v, where)));
  };
  measure("as eager", 2, accuracy::own, "e1");
  measure("strict", 1.5, accuracy::strict, "e2");
  measure("half", 4, accuracy::half, "e3");
  measure("strict", 6, accuracy::half, "e3");
  const auto names = [&](const std::string& scope) {
    std::vector<std::string> out;
    const auto ranked = s->best("task-a", 10, store::ranking::confirmed, scope).value();
    for (const auto& r : ranked)
      out.push_back(fmt::format("{} {}",
                                r.variant.id == make_variant("half").id     ? "half"
                                : r.variant.id == make_variant("strict").id ? "strict"
                                                                            : "eager",
                                r.result.score));
    return out;
  };
  using testing::ElementsAre;
  EXPECT_THAT(names(""), ElementsAre("eager 2", "strict 1.5"));
  EXPECT_THAT(names(ranking_scope_of(accuracy::strict)), ElementsAre("strict 1.5"));
  EXPECT_THAT(names(ranking_scope_of(accuracy::half)), ElementsAre("strict 6", "half 4"));
  EXPECT_THAT(names("e3"), ElementsAre("strict 6", "half 4"));
  EXPECT_EQ(s->get_environment(held_to(make_environment(), accuracy::half).id)->id,
            held_to(make_environment(), accuracy::half).id);
}

TEST(store, a_variant_is_ranked_by_its_newest_confirmed_verdict) {
  store_folder folder;
  auto s = open(folder);
  evaluate(*s, "v", 5.0, false, "e3", 3000);  // never confirmed, although newest and highest
  evaluate(*s, "v", 2.0, true, "e1", 1000);
  evaluate(*s, "v", 1.8, true, "e2", 2000);
  evaluate(*s, "w", 1.9, false, "e1", 1000);
  const auto all = s->best("task-a", 10, store::ranking::all).value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].result.score, 1.9);
  EXPECT_EQ(all[1].result.score, 1.8);
  EXPECT_EQ(all[1].variant.experiment, "e2");
  EXPECT_EQ(s->best("task-a", 10, store::ranking::all, "e1").value().front().result.score, 2.0);
  EXPECT_EQ(s->verdicts_of_variant(make_variant("v").id).value().size(), 3u);
  EXPECT_EQ(s->verdicts_of_task("task-a", "e2").value().size(), 1u);
}

TEST(store, a_variant_is_found_by_a_unique_prefix) {
  store_folder folder;
  auto s = open(folder);
  auto v = make_variant("v"), w = make_variant("w");
  v.id = "abcdef01";
  w.id = "abcdff02";
  ASSERT_TRUE(holds(s->reserve(v, "e1")));
  ASSERT_TRUE(holds(s->reserve(v, "e2")));
  ASSERT_TRUE(holds(s->reserve(w, "e1")));
  EXPECT_EQ(s->find_variant("abcde").value().id, "abcdef01");
  EXPECT_EQ(s->find_variant("abcd").error().code, errc::invalid_argument) << "two begin with it";
  EXPECT_EQ(s->find_variant("abc").error().code, errc::invalid_argument) << "too short";
  EXPECT_EQ(s->find_variant("ffff").error().code, errc::not_found);
}

TEST(store, each_experiment_gets_its_own_trace_of_a_shared_variant) {
  store_folder folder;
  auto s = open(folder);
  auto v = make_variant("v");
  const auto a = s->reserve(v, "e1").value();
  v.trace = json("of e2");
  const auto b = s->reserve(v, "e2").value();
  ASSERT_TRUE(holds(s->commit(a, make_verdict(a, 2), make_environment())));
  ASSERT_TRUE(holds(s->commit(b, make_verdict(b, 2), make_environment())));
  EXPECT_EQ(s->best("task-a", 1, store::ranking::all, "e2").value().front().variant.trace, json("of e2"));
  EXPECT_EQ(s->best("task-a", 1, store::ranking::all, "e1").value().front().variant.trace, make_variant("v").trace);
}

TEST(store, a_variant_that_is_measured_again_has_one_place_in_each_ranking) {
  store_folder folder;
  auto s = open(folder);
  evaluate(*s, "v", 2.0, true, "e1", 1000);
  evaluate(*s, "v", 1.5, true, "e2", 2000);
  evaluate(*s, "w", 1.7, true, "e1", 1000);
  s.reset();
  s = open(folder);
  const auto all = s->best("task-a", 10, store::ranking::confirmed).value();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].result.score, 1.7);
  EXPECT_EQ(all[1].result.score, 1.5);
  EXPECT_EQ(s->best("task-a", 1, store::ranking::confirmed, "e1").value().front().result.score, 2.0);
}

TEST(store, a_tally_sums_up_the_verdicts_of_a_task_in_an_experiment) {
  store_folder folder;
  auto s = open(folder);
  EXPECT_TRUE(s->tallies("e1").value().empty());
  evaluate(*s, "a", 3, false);
  evaluate(*s, "b", 2, true);
  evaluate(*s, "c", 1.5, true);
  evaluate(*s, "d", 0, false);
  evaluate(*s, "a", 4, true, "e2");
  const auto lost = s->reserve(make_variant("e"), "e1").value();
  ASSERT_TRUE(holds(s->lose(lost, "gone", store::loss::on_device)));
  s.reset();
  s = open(folder);
  const auto of_e1 = s->tallies("e1").value();
  ASSERT_EQ(of_e1.size(), 1u);
  EXPECT_EQ(of_e1[0].task, "task-a");
  EXPECT_EQ(of_e1[0].evaluations, 4);
  EXPECT_EQ(of_e1[0].correct, 3);
  EXPECT_EQ(of_e1[0].lost, 1);
  EXPECT_EQ(of_e1[0].best, 2);
  EXPECT_EQ(of_e1[0].best_variant, make_variant("b").id);
  EXPECT_EQ(of_e1[0].outcomes.at("wrong_answer"), 1);
  EXPECT_EQ(s->tallies().value().size(), 2u);
}

TEST(store, unfinished_attempts_are_those_at_variants_without_a_verdict) {
  store_folder folder;
  auto s = open(folder);
  evaluate(*s, "done", 2, true);
  const auto lost_first = s->reserve(make_variant("lost first"), "e1").value();
  ASSERT_TRUE(holds(s->lose(lost_first, "gone", store::loss::on_device)));
  const auto second = s->reserve(make_variant("lost first"), "e1").value();
  ASSERT_TRUE(holds(s->commit(second, make_verdict(second, 2), make_environment())));
  const auto lost = s->reserve(make_variant("lost"), "e1").value();
  ASSERT_TRUE(holds(s->lose(lost, "gone", store::loss::on_device)));
  const auto leased = s->reserve(make_variant("leased"), "e1").value();
  std::map<std::string, attempt_state> found;
  const auto unfinished = s->unfinished_attempts("e1").value();
  for (const auto& a : unfinished)
    found[a.variant] = a.state;
  EXPECT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at(lost.variant), attempt_state::lost);
  EXPECT_EQ(found.at(leased.variant), attempt_state::leased);
  EXPECT_TRUE(s->unfinished_attempts("e2").value().empty());
}

TEST(store, a_summary_has_everything_but_the_details) {
  store_folder folder;
  auto s = open(folder);
  const auto a = s->reserve(make_variant("v"), "e1").value();
  const auto v = make_full_verdict(a, 7);
  ASSERT_TRUE(holds(s->commit(a, v, make_environment())));
  const auto summary = s->verdicts_of_task("task-a", "e1").value().at(0);
  EXPECT_EQ(summary.score, v.score);
  EXPECT_EQ(summary.stage_ms, v.stage_ms);
  EXPECT_TRUE(summary.samples.empty() && summary.checks.empty() && summary.gates.empty());
  EXPECT_EQ(to_text(s->verdicts_of_task("task-a", "", store::verdict_parts::all).value().at(0)), to_text(v));
}

// ---- events ---------------------------------------------------------------------------------------------------------

TEST(store, event_numbers_continue_after_a_restart) {
  store_folder folder;
  auto s = open(folder);
  event_record e;
  e.kind = "node";
  e.text = "started";
  EXPECT_EQ(s->add_event(e).value().sequence, 1);
  EXPECT_EQ(s->add_event(e).value().sequence, 2);
  s.reset();
  s = open(folder);
  EXPECT_EQ(s->add_event(e).value().sequence, 3);
  EXPECT_EQ(s->events_after(0, 100).value().size(), 3u);
  const auto some = s->events_after(1, 1).value();
  ASSERT_EQ(some.size(), 1u);
  EXPECT_EQ(some[0].sequence, 2);
  EXPECT_TRUE(s->events_after(3, 100).value().empty());
}

}  // namespace
}  // namespace cudal1
