// Generator, learner and store together: a group of scored proposals becomes a version that is stored and published.
#include <cstdlib>
#include <filesystem>
#include <optional>

#include <gtest/gtest.h>

#include "actors/generator_actor.hpp"
#include "actors/learner_actor.hpp"
#include "actors/store_actor.hpp"

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
    store_ = system_.spawn<caf::detached>(run_store, db_);
    generator_ = system_.spawn<caf::detached>(run_generator, new_policy(), store_, db_, 4);
    learner_ = system_.spawn<caf::detached>(run_learner, new_policy(), learner_setup{store_, generator_, 4, "e1", 0});
  }
  void TearDown() override {
    caf::anon_send_exit(learner_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(generator_, caf::exit_reason::user_shutdown);
    caf::anon_send_exit(store_, caf::exit_reason::user_shutdown);
    learner_ = nullptr;
    generator_ = nullptr;
    store_ = nullptr;
    self_.reset();
    system_.await_all_actors_done();
    db_.reset();
    std::filesystem::remove_all(folder_);
  }
  static std::shared_ptr<std::unique_ptr<policy>> new_policy() {
    return std::make_shared<std::unique_ptr<policy>>(make_policy("learned", 3).value());
  }
  static caf::actor_system_config& prepared(caf::actor_system_config& c) {
    register_messages(c);
    return c;
  }
  message::proposed propose(uint64_t seed) {
    auto p = ask_blocking<message::proposed>(*self_, generator_, 30s, message::propose{task_, "e1", "cpu", seed});
    EXPECT_TRUE(p) << p.error().message;
    return p.value_or(message::proposed{});
  }
  bool learn(const message::proposed& p, outcome result, double score) {
    auto d = ask_blocking<message::done>(*self_, learner_, 30s, message::learn{task_, "cpu", p.variant, result, score});
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
  std::optional<caf::scoped_actor> self_{system_};
};

TEST_F(learning, a_proposal_is_a_checked_program_with_the_schedule_it_came_from) {
  const auto p = propose(1);
  ASSERT_TRUE(p.program) << p.problem;
  EXPECT_EQ(p.variant.id, p.program->id);
  EXPECT_EQ(p.variant.task, task_->id);
  EXPECT_EQ(p.variant.origin, "policy learned");
  EXPECT_EQ(p.variant.policy_version, 0);
  EXPECT_EQ(propose(1).variant.id, p.variant.id) << "all randomness comes from the seed";
}

TEST_F(learning, a_full_group_becomes_a_version_that_is_stored_and_that_the_generator_uses) {
  for (uint64_t i = 0; i < 3; ++i)
    EXPECT_FALSE(learn(propose(i), outcome::correct, 1.0 + static_cast<double>(i))) << "the group is not full";
  EXPECT_FALSE(db_->get_policy("learned"));
  EXPECT_TRUE(learn(propose(3), outcome::wrong_answer, 0));
  // The learner sends it to the store before it answers, and to the generator once it is stored.
  int64_t used = 0;
  for (uint64_t seed = 100; used == 0 && seed < 100000; ++seed)
    used = propose(seed).variant.policy_version;
  EXPECT_GT(used, 0);
  const auto kept = db_->get_policy("learned");
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->version, used);
  EXPECT_NE(kept->blob, "");
}

TEST_F(learning, groups_that_are_not_full_when_the_experiment_ends_are_learned_from_as_well) {
  const auto rest = [&] {
    auto d = ask_blocking<message::done>(*self_, learner_, 30s, message::learn_rest{});
    EXPECT_TRUE(d) << d.error().message;
    return d && d->yes;
  };
  EXPECT_FALSE(rest()) << "nothing was scored";
  EXPECT_FALSE(learn(propose(0), outcome::correct, 1.0));
  EXPECT_FALSE(rest()) << "one alone has nothing to be compared with";
  // Two that differ: the one from before, and one with another schedule.
  uint64_t seed = 1;
  while (propose(seed).variant.schedule == propose(0).variant.schedule)
    ++seed;
  EXPECT_FALSE(learn(propose(seed), outcome::correct, 3.0));
  EXPECT_TRUE(rest());
  EXPECT_FALSE(rest()) << "and only once";
  const auto kept =
      ask_blocking<message::policy_version>(*self_, store_, 30s, message::load_policy{"learned", "e1", false});
  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_GT(kept->version, 0);
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
  const auto second_learner = save("e1", 3, 1, "of a learner that was thought dead");
  ASSERT_FALSE(second_learner);
  EXPECT_EQ(second_learner.error().code, errc::already_exists);
  EXPECT_EQ(load("e1", false).saved_version, 5);
}

TEST_F(learning, verdicts_that_say_nothing_about_the_policy_are_not_learned_from) {
  const auto p = propose(1);
  for (int i = 0; i < 8; ++i)
    EXPECT_FALSE(learn(p, i % 2 == 0 ? outcome::quarantined : outcome::unmeasurable, 0));
  auto by_hand = p;
  by_hand.variant.schedule = "";
  for (int i = 0; i < 4; ++i)
    EXPECT_FALSE(learn(by_hand, outcome::correct, i));
  EXPECT_FALSE(db_->get_policy("learned"));
}

}  // namespace
}  // namespace cudal1
