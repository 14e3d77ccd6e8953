// Generator, learner and store together: a group of scored proposals becomes a version that is stored and published.
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include <gtest/gtest.h>

#include "actors/agent/auditor_actor.hpp"
#include "actors/coordinator/store_actor.hpp"
#include "actors/experiment/generator_actor.hpp"
#include "actors/experiment/learner_actor.hpp"
#include "policy/search/policy_registry.hpp"

namespace cudal1 {
namespace {

using namespace std::chrono_literals;

constexpr const char* task_text = R"({"format": 1, "name": "chain", "summary": "s", "family": "pointwise",
  "inputs": [{"name": "x", "dtype": "float32", "shape": [64, 256]}],
  "steps": [{"aten": "aten::relu", "args": {"self": "x"}, "out": ["r"]},
            {"aten": "aten::mul.Scalar", "args": {"self": "r", "other": 0.5}, "out": ["y"]}], "outputs": ["y"]})";

class learning : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "cudal1-learning-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    auto db = store::open(folder_ + "/store");
    ASSERT_TRUE(db) << db.error().message;
    db_ = std::move(*db);
    auto t = read_task(task_text, "cpu");
    ASSERT_TRUE(t) << t.error().message;
    task_ = shared_task(std::move(*t));
    experiment_record e;
    e.tasks = {task_->id};
    ASSERT_EQ(db_->create_experiment(e).value().id, "e1");
    store_ = system_.spawn<caf::detached>(run_store, db_, blobs(folder_));
    auditor_ = system_.spawn(run_auditor, auditor_setup{{}, {}, 0.8, store_});
    environment where;
    where.device = "cpu";
    generator_ = system_.spawn<caf::detached>(
        run_generator, new_policy(),
        generator_setup{store_, prompt_source(db_, blobs(folder_), where, "", prompt_source::parts::unused),
                        "learned/e1", std::make_shared<proposal_threads>(2)});
    learner_ =
        system_.spawn<caf::detached>(run_learner, new_policy(), learner_setup{store_, generator_, auditor_, "e1", 0});
  }
  void TearDown() override {
    caf::anon_send_exit(learner_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(generator_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(store_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(auditor_, caf::exit_reason::user_shutdown);
    auditor_ = nullptr;
    learner_ = nullptr;
    generator_ = nullptr;
    store_ = nullptr;
    self_.reset();
    system_.await_all_actors_done();
    db_.reset();
    std::filesystem::remove_all(folder_);
  }
  static std::shared_ptr<std::unique_ptr<policy>> new_policy() {
    return std::make_shared<std::unique_ptr<policy>>(make_policy("learned", policy_setup{3, {}}).value());
  }
  static caf::actor_system_config& prepared(caf::actor_system_config& c) {
    register_messages(c);
    return c;
  }
  // A group of proposals to one prompt.
  std::vector<message::proposed> propose(uint64_t seed, int64_t count = 1) {
    message::propose m;
    m.what = task_;
    m.experiment = "e1";
    m.device = "cpu";
    m.seed = seed;
    m.count = count;
    auto t = ask_blocking<message::ticket>(*self_, generator_, 30s, m);
    EXPECT_TRUE(t) << t.error().message;
    group_ = t ? t->group : group_record{};
    std::vector<message::proposed> got;
    while (t && (got.empty() || !got.back().last))
      (*self_)->receive([&](const message::proposed& p) { got.push_back(p); },
                        caf::after(30s) >> [] { FAIL() << "no proposal came"; });
    for (const auto& p : got)
      EXPECT_EQ(p.ticket, t->number);
    return got;
  }
  // The last group that was proposed, with these verdicts.
  bool learn(const std::vector<message::proposed>& group, const std::vector<std::pair<outcome, double>>& verdicts) {
    message::learn m;
    m.what = task_;
    m.device = "cpu";
    m.group = group_;
    for (std::size_t i = 0; i < group.size(); ++i) {
      verdict v;
      v.task = task_->id;
      v.variant = group[i].variant.id;
      v.result = verdicts[i].first;
      v.score = verdicts[i].second;
      v.score_interval = {0.99 * v.score, 1.01 * v.score};
      for (int pair = 0; v.score > 0 && pair < 12; ++pair)
        v.samples.push_back({pair / 4, false, 100 * v.score, 100, 0, 0});
      m.members.push_back({group[i].variant, v});
    }
    auto d = ask_blocking<message::done>(*self_, learner_, 30s, m);
    EXPECT_TRUE(d) << d.error().message;
    return d && d->yes;
  }

  std::string folder_;
  std::shared_ptr<store> db_;
  shared_task task_;
  caf::actor_system_config config_;
  caf::actor_system system_{prepared(config_)};
  store_actor store_;
  generator_actor generator_;
  learner_actor learner_;
  auditor_actor auditor_;
  group_record group_;
  std::optional<caf::scoped_actor> self_{system_};
};

TEST_F(learning, a_proposal_is_a_checked_program_with_the_schedule_it_came_from) {
  const auto p = propose(1).front();
  ASSERT_TRUE(p.program) << p.problem;
  EXPECT_EQ(p.variant.id, p.program->id);
  EXPECT_EQ(p.variant.task, task_->id);
  EXPECT_EQ(p.variant.origin, "policy learned");
  EXPECT_EQ(p.variant.policy_version, 0);
  EXPECT_TRUE(p.variant.log_probability);
  EXPECT_EQ(propose(1).front().variant.id, p.variant.id) << "all randomness comes from the seed";
}

TEST_F(learning, a_group_is_stored_before_its_proposals_come_and_asked_again_by_its_id) {
  const auto first = propose(7, 4);
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(group_.id, "e1/1");
  const auto stored = db_->get_group("e1/1");
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(stored->asked, 4);
  EXPECT_EQ(stored->policy, "learned");
  EXPECT_EQ(stored->lineage, "learned/e1");
  EXPECT_FALSE(stored->closed);
  for (const auto& p : first)
    EXPECT_EQ(p.variant.group, "e1/1");
  message::propose again;
  again.what = task_;
  again.experiment = "e1";
  again.device = "cpu";
  again.group = "e1/1";
  again.count = 4;
  const auto t = ask_blocking<message::ticket>(*self_, generator_, 30s, again);
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->group.id, "e1/1") << "no second group is stored";
  EXPECT_EQ(db_->open_groups("e1").value().size(), 1u);
  // They come in any order.
  std::multiset<std::string> before, now;
  for (const auto& p : first) {
    before.insert(p.variant.id);
    (*self_)->receive([&](const message::proposed& m) { now.insert(m.variant.id); },
                      caf::after(30s) >> [] { FAIL() << "no proposal came"; });
  }
  EXPECT_EQ(now, before);
}

TEST_F(learning, a_group_becomes_a_version_that_is_stored_and_that_the_generator_uses) {
  EXPECT_FALSE(db_->get_policy("learned"));
  std::vector<message::proposed> group;
  for (uint64_t seed = 0; group.size() < 4; ++seed) {  // of schedules that differ
    group = propose(seed, 4);
    std::set<std::string> different;
    for (const auto& p : group)
      different.insert(p.variant.schedule);
    if (different.size() < 2) group.clear();
  }
  EXPECT_TRUE(
      learn(group, {{outcome::correct, 1}, {outcome::correct, 2}, {outcome::correct, 3}, {outcome::wrong_answer, 0}}));
  const auto paid = db_->get_rewards(group_.id);
  ASSERT_TRUE(paid) << paid.error().message;
  ASSERT_EQ(paid->rewards.size(), 4u);
  EXPECT_LT(paid->rewards[3], paid->rewards[0]);
  EXPECT_LT(paid->rewards[0], paid->rewards[2]);
  // The learner sends it to the store before it answers, and to the generator once it is stored.
  int64_t used = 0;
  for (uint64_t seed = 100; used == 0 && seed < 100000; ++seed)
    used = propose(seed).front().variant.policy_version;
  EXPECT_GT(used, 0);
  const auto kept = ask_blocking<message::policy_version>(*self_, store_, 30s, message::load_policy{"learned", "e1"});
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->version, used);
  EXPECT_NE(kept->blob, "");
  EXPECT_TRUE(db_->get_policy("learned").value().blob.ends_with(".policy")) << "the state itself is a blob";
}

TEST_F(learning, one_variant_alone_teaches_nothing) {
  EXPECT_FALSE(learn(propose(1), {{outcome::correct, 2.0}})) << "it has nothing to be compared with";
  EXPECT_FALSE(db_->get_rewards(group_.id));
}

TEST_F(learning, a_prompt_that_is_asked_again_shows_the_exemplars_that_it_showed) {
  const auto shown = propose(1).front().variant;
  const auto attempt = db_->reserve(shown, "e1");
  ASSERT_TRUE(attempt) << attempt.error().message;
  verdict v;
  v.task = task_->id;
  v.variant = shown.id;
  v.result = outcome::correct;
  v.score = 1.5;
  environment where;
  where.device = "cpu";
  ASSERT_TRUE(db_->commit(*attempt, v, where));
  group_record before;
  before.experiment = "e1";
  before.task = task_->id;
  before.policy = "evolutionary";
  before.exemplars = {shown.id};
  before.seed = 7;
  const auto stored = db_->put_group(before);
  ASSERT_TRUE(stored) << stored.error().message;
  message::propose again;
  again.what = task_;
  again.experiment = "e1";
  again.device = "cpu";
  again.group = stored->id;
  const auto policy = make_policy("evolutionary", policy_setup{3, {}}).value();
  const auto made = prompt_source(db_, blobs(folder_), where, "", prompt_source::parts::unused).make(again, *policy);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_TRUE(made->what.resumed);
  EXPECT_EQ(made->what.seed, 7u);
  ASSERT_EQ(made->what.exemplars.size(), 1u);
  EXPECT_EQ(made->what.exemplars.front().id(), shown.id);
  EXPECT_EQ(made->what.exemplars.front().score(), 1.5);
}

TEST_F(learning, experiments_that_run_together_do_not_overwrite_each_others_policy) {
  const auto save = [&](const std::string& experiment, int64_t version, int64_t replaces, const std::string& blob) {
    return ask_blocking<message::done>(*self_, store_, 30s,
                                       message::save_policy{"learned", experiment, version, replaces, blob});
  };
  const auto load = [&](const std::string& experiment, bool fresh) {
    auto p =
        ask_blocking<message::policy_version>(*self_, store_, 30s, message::load_policy{"learned", experiment, fresh});
    EXPECT_TRUE(p) << p.error().message;
    return p.value_or(message::policy_version{});
  };
  EXPECT_EQ(load("e1", false).version, 0);
  EXPECT_TRUE(save("e1", 1, 0, "of e1"));
  EXPECT_EQ(load("e2", false).blob, "of e1") << "a new experiment goes on from what was learned last";
  EXPECT_EQ(load("e2", false).saved_version, 0);
  EXPECT_EQ(load("e2", true).version, 0) << "unless it is fresh";
  EXPECT_TRUE(save("e2", 2, 0, "of e2"));
  EXPECT_TRUE(save("e1", 5, 1, "of e1, later"));
  EXPECT_EQ(load("e2", true).blob, "of e2");
  EXPECT_EQ(load("e1", false).blob, "of e1, later");
  EXPECT_EQ(load("e3", false).blob, "of e1, later");
  const auto states = std::distance(std::filesystem::directory_iterator(folder_ + "/blobs"), {});
  EXPECT_EQ(states, 2) << "a state that no experiment has any more is removed";
  EXPECT_TRUE(save("e3", 6, 0, "of e2"));
  EXPECT_TRUE(save("e3", 7, 6, "of e3"));
  EXPECT_EQ(load("e2", true).blob, "of e2") << "but not one that another experiment has";
  EXPECT_TRUE(save("e1", 6, 5, "of e1, at last"));
  EXPECT_TRUE(save("e1", 5, 6, "of e1, later"));
  const auto second_learner = save("e1", 3, 1, "of a learner that was thought dead");
  ASSERT_FALSE(second_learner);
  EXPECT_EQ(second_learner.error().code, errc::already_exists);
  EXPECT_EQ(load("e1", false).saved_version, 5);
}

TEST_F(learning, verdicts_that_say_nothing_about_the_policy_are_not_learned_from) {
  const auto group = propose(1, 3);
  EXPECT_FALSE(learn(group, {{outcome::quarantined, 0}, {outcome::unmeasurable, 0}, {outcome::correct, 2}}));
  EXPECT_FALSE(db_->get_policy("learned"));
}

}  // namespace
}  // namespace cudal1
