// The auditor with a real store: lookalikes of hack cases, and rewards.
#include "actors/agent/auditor_actor.hpp"

#include <caf/all.hpp>
#include <gtest/gtest.h>

#include "actors/coordinator/store_actor.hpp"
#include "sandbox/verify/profiler.hpp"
#include "tests/actors/small_tasks.hpp"
#include "tests/store/store_fixture.hpp"

namespace cudal1 {
namespace {

class auditor_test : public testing::Test {
 protected:
  auditor_test() {
    store_ = system_.spawn(run_store, db_, blobs(folder_.store()));
    auditor_ = system_.spawn(run_auditor, auditor_setup{{}, {}, 0.8, store_});
  }
  ~auditor_test() override {
    for (const auto& a : {caf::actor_cast<caf::actor>(auditor_), caf::actor_cast<caf::actor>(store_)})
      caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
    self_->wait_for(auditor_, store_);
  }
  static caf::actor_system_config& prepared(caf::actor_system_config& c) {
    register_messages(c);
    return c;
  }
  template <class Reply, class Destination, class Message>
  expected<Reply> ask(const Destination& where, Message m) {
    auto handle = self_->request(where, caf::infinite, std::move(m));
    expected<Reply> got = fail(errc::timeout, "no answer");
    handle.receive([&](Reply& r) { got = std::move(r); },
                   [&](caf::error& e) { got = tl::unexpected<error>(from_caf(e)); });
    return got;
  }

  // Reserves a variant and commits a verdict of it, as an experiment does.
  void evaluate(const std::string& program, const verdict& v, const std::string& schedule = "") {
    auto record = variant_of(program, schedule);
    const auto a = ask<message::reserved>(store_, message::reserve_attempt{record, "e1", ""});
    ASSERT_TRUE(holds(a));
    message::commit_verdict m{a->attempt, v, make_environment()};
    m.result.variant = record.id;
    m.result.task = record.task;
    ASSERT_TRUE(holds(ask<message::done>(store_, m)));
  }
  static variant_record variant_of(const std::string& program, const std::string& schedule) {
    variant_record v;
    v.id = check_program_text(program).value().id;
    v.task = relu_chain_task().id;
    v.program = program;
    v.schedule = schedule;
    v.origin = "hand: test";
    return v;
  }
  // The audit of a correct variant, which the store knows.
  verdict audit(const std::string& program, const std::string& schedule = "") {
    const auto record = variant_of(program, schedule);
    EXPECT_TRUE(holds(ask<message::reserved>(store_, message::reserve_attempt{record, "e2", ""})));
    message::audit m;
    m.what = shared_task(relu_chain_task());
    m.program = shared_program(check_program_text(program).value());
    m.claim.variant = record.id;
    m.claim.task = record.task;
    for (int i = 0; i < 8; ++i)
      m.timed.samples.push_back({i / 4, i % 2 == 0, 300, 200});
    m.timed.outputs_fingerprinted = 8;
    m.estimate = estimate_timing(m.timed.samples);
    static_cast<measured_score&>(m.claim) = m.estimate;
    m.asked_pairs = 8;
    return ask<verdict>(auditor_, m).value();
  }

  store_folder folder_;
  std::shared_ptr<store> db_ = store::open(folder_.store()).value();
  caf::actor_system_config config_;
  caf::actor_system system_{prepared(config_)};
  store_actor store_;
  auditor_actor auditor_;
  caf::scoped_actor self_{system_};
};

verdict refused(outcome o, const std::string& reason) {
  verdict v;
  v.result = o;
  v.reason = reason;
  v.gates = {{"run", false, reason}};
  return v;
}

const char* const honest = "fabsf(x[i] > 0.f ? x[i] * 0.5f : 0.f) * 3.f";
std::string hack() {
  return pointwise_program("(((float*)x)[i] = 0.f, fabsf(x[i] > 0.f ? x[i] * 0.5f : 0.f) * 3.f)");
}
std::string renamed(std::string program) {
  for (std::size_t at = 0; (at = program.find("int i ", at)) != std::string::npos;)
    program.replace(at, 6, "int q ");
  for (std::size_t at = 0; (at = program.find("[i]", at)) != std::string::npos;)
    program.replace(at, 3, "[q]");
  const auto guard = program.find("i < n");
  if (guard != std::string::npos) program.replace(guard, 1, "q");
  return program;
}

TEST_F(auditor_test, makes_a_variant_suspicious_that_is_written_like_a_refused_one) {
  evaluate(hack(), refused(outcome::wrote_input, "a write into input \"x\""));
  const auto kept = db_->hack_cases(hack_class::writes_to_an_input, 9).value();
  ASSERT_EQ(kept.size(), 1u) << "with the commit of the verdict";
  EXPECT_EQ(kept[0].experiment, "e1");
  EXPECT_EQ(kept[0].gate, "run");
  EXPECT_EQ(kept[0].origin, "hand: test");
  const auto v = audit(renamed(hack()));
  EXPECT_EQ(v.result, outcome::correct) << v.reason;
  EXPECT_EQ(v.suspicion, "its source is 100% like that of hack case h1 (writes to an input)");
  EXPECT_EQ(audit(pointwise_program("expf(-x[i]) / (1.f + x[i] * x[i])")).suspicion, "") << "another kernel";
}

TEST_F(auditor_test, does_not_suspect_what_moves_wrote_and_makes_no_case_of_it) {
  evaluate(hack(), refused(outcome::out_of_bounds, "a write past the end of \"y\""), "fuse(steps=0..1)");
  EXPECT_TRUE(db_->newest_hack_cases(0, 9).value().empty());
  evaluate(renamed(hack()), refused(outcome::out_of_bounds, "a write past the end of \"y\""));
  EXPECT_EQ(db_->newest_hack_cases(0, 9).value().size(), 1u);
  const auto another = [](std::string p) { return p.replace(p.find("by_hand"), 7, "by_move"); };
  EXPECT_EQ(audit(another(hack()), "fuse(steps=0..1)").suspicion, "");
}

TEST_F(auditor_test, makes_no_case_of_a_mistake) {
  evaluate(pointwise_program(honest), refused(outcome::wrong_answer, "3 elements are too far off"));
  evaluate(pointwise_program("x[i] * 2.f"), refused(outcome::hang, "a call took more than 2 s"));
  EXPECT_TRUE(db_->newest_hack_cases(0, 9).value().empty());
}

TEST_F(auditor_test, pays_a_group_and_gives_the_record_of_it) {
  const auto member = [](const std::string& variant, double ratio) {
    verdict v;
    v.variant = variant;
    for (int i = 0; i < 8; ++i)
      v.samples.push_back({i / 4, i % 2 == 0, 100 * ratio, 100});
    static_cast<measured_score&>(v) = estimate_timing(v.samples);
    v.attempt = 2;
    return reward_member_of(v);
  };
  message::reward_group m{"e1/3", "e1", "task-a", 7, {member("a", 1), member("b", 3)}};
  const auto paid = ask<message::rewards>(auditor_, m);
  ASSERT_TRUE(holds(paid));
  ASSERT_EQ(paid->record.rewards.size(), 2u);
  EXPECT_EQ(paid->record.group, "e1/3");
  EXPECT_EQ(paid->record.policy_version, 7);
  EXPECT_EQ(paid->record.attempts, (std::vector<int64_t>{2, 2}));
  EXPECT_NEAR(paid->record.rewards[1], 1, 1e-9);
  EXPECT_NEAR(paid->record.scores[1], 3, 1e-9);
  EXPECT_FALSE(paid->paid.members[1].steps.empty());
  EXPECT_EQ(to_text(from_text<reward_options>(paid->record.rule).value()), to_text(reward_options{}));
}

}  // namespace
}  // namespace cudal1
