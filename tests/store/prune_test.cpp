// Pruning: what is removed, what stays, and that a store is in order after each moment of it.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config/base/wall_clock.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;

constexpr int64_t day = 86'400'000;

double score_of(int i) {
  return i % 5 == 0 ? 0 : 0.5 + (i * 37 % 1000) * 0.003;  // each fifth is wrong
}

class store_prune : public testing::Test {
 protected:
  // e1, which ended long ago, e2, which ended now, and e3, which runs since long ago.
  void SetUp() override {
    auto opened = store::open(folder_.store());
    ASSERT_TRUE(holds(opened));
    db_ = std::move(*opened);
    ASSERT_TRUE(holds(db_->put_task({"task-a", "task-a", "", "", "cpu", "{}"})));
    for (int i = 0; i < 3; ++i) {
      experiment_record e;
      e.tasks = {"task-a"};
      e.created_unix_ms = unix_ms() - 40 * day;
      e.finished_unix_ms = i == 0 ? e.created_unix_ms : i == 1 ? unix_ms() : 0;
      e.state = i == 2 ? experiment_state::running : experiment_state::finished;
      ASSERT_TRUE(holds(db_->create_experiment(e)));
    }
  }
  void search(const std::string& experiment, int from, int to) {
    ASSERT_TRUE(holds(db_->write_together([&] {
      group_record g;
      g.experiment = experiment;
      g.task = "task-a";
      const auto group = db_->put_group(g);
      EXPECT_TRUE(holds(group));
      for (int i = from; i < to; ++i) {
        auto v = make_variant(fmt::format("v{}", i));
        v.group = group->id;
        v.island = i % 2;
        const auto a = db_->reserve(v, experiment);
        EXPECT_TRUE(holds(a));
        auto result = make_verdict(*a, score_of(i), i % 7 == 0);
        result.samples.assign(50, {});
        result.near_eager = i % 6 == 0;
        EXPECT_TRUE(holds(db_->commit(*a, result, make_environment())));
      }
      EXPECT_TRUE(holds(db_->close_group(group->id, {})));
      const auto lost = db_->reserve(make_variant("lost-" + experiment), experiment);
      EXPECT_TRUE(holds(db_->lose(*lost, "the device fell over", store::loss::elsewhere)));
    })));
  }
  static prune_rule rule(bool dry_run = false) {
    prune_rule r;
    r.ended_before_unix_ms = unix_ms() - 30 * day;
    r.dry_run = dry_run;
    return r;
  }
  static prune_report prune(store& s, const prune_rule& r) {
    prune_report all;
    std::string from;
    do {
      const auto step = s.prune(r, from);
      EXPECT_TRUE(holds(step));
      if (!step) break;
      all.add(*step);
      from = step->next;
    } while (!from.empty());
    return all;
  }
  static void expect_in_order(store& s) {
    const auto found = s.verify();
    ASSERT_TRUE(holds(found));
    EXPECT_EQ(found->problem_count, 0) << (found->problems.empty() ? "" : found->problems.front());
  }
  static std::vector<std::string> best_of(store& s, std::size_t n, store::ranking among, const std::string& e = "") {
    std::vector<std::string> ids;
    const auto ranked = s.best("task-a", n, among, e);
    EXPECT_TRUE(holds(ranked));
    for (const auto& r : ranked.value_or(std::vector<store::ranked>()))
      ids.push_back(r.variant.id);
    return ids;
  }
  std::optional<verdict> reusable(const std::string& name) const {
    const auto v = db_->verdict_in_class("task-a", make_variant(name).id, environment_class(make_environment()));
    EXPECT_TRUE(holds(v));
    return v.value_or(std::nullopt);
  }

  store_folder folder_;
  std::unique_ptr<store> db_;
};

TEST_F(store_prune, keeps_the_best_and_what_later_searches_use) {
  search("e1", 0, 300);
  search("e2", 290, 320);
  search("e3", 320, 330);
  const auto best = best_of(*db_, 16, store::ranking::all), confirmed = best_of(*db_, 16, store::ranking::confirmed),
             near = best_of(*db_, 1, store::ranking::near_eager),
             of_e1 = best_of(*db_, 1, store::ranking::confirmed, "e1");
  ASSERT_EQ(near.size(), 1u);
  const auto planned = prune(*store::open_reader(folder_.store()).value(), rule(true));
  EXPECT_EQ(db_->verdicts_of_task("task-a")->size(), 340u) << "a dry run changes nothing";
  const auto done = prune(*db_, rule());
  EXPECT_EQ(to_text(planned), to_text(done)) << "the dry run says what is removed";
  EXPECT_THAT(done.experiments, ElementsAre("e1"));
  EXPECT_GT(done.verdicts, 150);
  EXPECT_EQ(done.variants, done.verdicts + 1) << "that which was lost has no verdict";
  EXPECT_GT(done.bytes, 100 * done.verdicts);
  expect_in_order(*db_);

  EXPECT_EQ(best_of(*db_, 16, store::ranking::all), best);
  EXPECT_EQ(best_of(*db_, 16, store::ranking::confirmed), confirmed);
  EXPECT_EQ(best_of(*db_, 1, store::ranking::near_eager), near);
  EXPECT_EQ(best_of(*db_, 1, store::ranking::confirmed, "e1"), of_e1);
  EXPECT_EQ(db_->verdicts_of_task("task-a", "e2")->size(), 30u);
  EXPECT_EQ(db_->verdicts_of_task("task-a", "e3")->size(), 10u);
  EXPECT_EQ(db_->unfinished_attempts("e1")->size(), 0u);
  EXPECT_EQ(db_->unfinished_attempts("e3")->size(), 1u);
  EXPECT_EQ(db_->tallies("e1")->front().evaluations, 300) << "what the search did is still counted";
  EXPECT_GT(db_->get_experiment("e1")->pruned_unix_ms, 0);
  EXPECT_EQ(db_->get_experiment("e3")->pruned_unix_ms, 0);
  EXPECT_EQ(db_->create_experiment({})->id, "e4");
}

TEST_F(store_prune, leaves_indexes_that_agree_with_the_verdicts) {
  search("e1", 0, 200);
  prune(*db_, rule());
  std::set<std::string> kept;
  const auto verdicts = db_->verdicts_of_task("task-a");
  for (const auto& v : *verdicts)
    kept.insert(v.variant);
  ASSERT_LT(kept.size(), 150u);
  for (int i = 0; i < 200; ++i) {
    const std::string name = fmt::format("v{}", i), id = make_variant(name).id;
    const bool is_kept = kept.contains(id);
    EXPECT_EQ(reusable(name).has_value(), is_kept) << name;
    EXPECT_EQ(db_->get_variant(id).has_value(), is_kept) << name;
    EXPECT_EQ(db_->has_attempt("e1", "task-a", id).value(), is_kept) << name;
  }
  EXPECT_EQ(db_->variants_of_group("e1/1")->size(), kept.size());
  std::set<std::string> failed;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    exemplar_query q;
    q.task = "task-a";
    q.environment_class = environment_class(make_environment());
    q.correct = q.failed = 3;
    q.seed = seed;
    const auto drawn = db_->sample_exemplars(q);
    ASSERT_TRUE(holds(drawn));
    EXPECT_EQ(drawn->correct.size(), 3u);
    for (const auto* list : {&drawn->correct, &drawn->failed})
      for (const auto& e : *list)
        EXPECT_TRUE(kept.contains(e.variant.id));
    for (const auto& e : drawn->failed)
      failed.insert(e.variant.id);
  }
  EXPECT_GE(failed.size(), 4u) << "some of each list are kept";
  ASSERT_TRUE(holds(db_->reset_islands("task-a", environment_class(make_environment()), 1)));
  // What was removed may be proposed and evaluated again.
  search("e2", 0, 40);
  expect_in_order(*db_);
}

TEST_F(store_prune, spares_experiments_in_use_and_is_done_once) {
  search("e1", 0, 100);
  auto in_use = rule();
  in_use.in_use = {"e1"};
  EXPECT_EQ(prune(*db_, in_use).bytes, 0);
  EXPECT_GT(prune(*db_, rule()).bytes, 0);
  EXPECT_EQ(prune(*db_, rule()).bytes, 0) << "nothing is left to remove";
}

// The events that are left have ascending numbers, and the next one is new.
TEST_F(store_prune, goes_on_numbering_events) {
  search("e1", 0, 50);
  const auto last = db_->events_after(0, 1 << 20)->back().sequence;
  prune(*db_, rule());
  EXPECT_THAT(db_->events_after(0, 1 << 20)->size(), 1u);
  db_.reset();
  db_ = std::move(*store::open(folder_.store()));
  EXPECT_EQ(db_->add_event({})->sequence, last + 1);
}

TEST_F(store_prune, may_be_killed_at_any_moment) {
  search("e1", 0, 2000);
  const auto best = best_of(*db_, 16, store::ranking::all);
  const auto planned = prune(*store::open_reader(folder_.store()).value(), rule(true));
  db_.reset();
  int killed = 0;
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      auto s = store::open(folder_.store());
      if (s) prune(**s, rule());
      ::_exit(0);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + 25 * round));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    db_ = std::move(*store::open(folder_.store()));
    expect_in_order(*db_);
    EXPECT_EQ(best_of(*db_, 16, store::ranking::all), best);
    db_.reset();
  }
  EXPECT_GT(killed, 0);
  db_ = std::move(*store::open(folder_.store()));
  prune(*db_, rule());
  expect_in_order(*db_);
  EXPECT_EQ(static_cast<int64_t>(db_->verdicts_of_task("task-a")->size()), 2000 - planned.verdicts);
}

}  // namespace
}  // namespace cudal1
