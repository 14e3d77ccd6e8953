#include "tools/cli/report/reward_audit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "sandbox/verify/profiler.hpp"
#include "tests/tools/tools_fixture.hpp"
#include "tools/cli/report/audit_text.hpp"
#include "tools/cli/report/hack_report.hpp"

namespace cudal1::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* source = "__global__ void f(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }\n";

class reward_audits : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = store::open(folder_ / "store");
    ASSERT_TRUE(holds(opened));
    s_ = std::move(*opened);
    experiment_record e;
    e.tasks = {"task"};
    ASSERT_TRUE(holds(s_->create_experiment(e)));
    group_record g;
    g.experiment = "e1";
    g.task = "task";
    ASSERT_TRUE(holds(s_->put_group(g)));
  }

  // A variant of the group, whose pairs have that ratio; 0: a wrong one.
  void evaluate(const std::string& name, double ratio, const std::string& suspicion = "") {
    variant_record v;
    v.id = name;
    v.task = "task";
    v.program = "{}";
    v.group = "e1/1";
    const auto a = s_->reserve(v, "e1");
    ASSERT_TRUE(holds(a));
    verdict r;
    r.task = "task";
    r.variant = name;
    r.result = ratio > 0 ? outcome::correct : outcome::wrong_answer;
    r.suspicion = suspicion;
    for (int i = 0; ratio > 0 && i < 14; ++i)
      r.samples.push_back({i / 7, i % 2 == 0, 100 * ratio, 100});
    if (ratio > 0) static_cast<measured_score&>(r) = estimate_timing(r.samples);
    ASSERT_TRUE(holds(s_->commit(*a, r, {"cpu", "a processor", "flags", "environment"})));
  }
  // What the auditor would have paid for the variants under rules.
  reward_record paid(const std::vector<std::string>& variants, const reward_options& rules = {}) {
    std::vector<reward_member> members;
    reward_record r;
    for (const auto& id : variants) {
      const auto all = s_->verdicts_in_experiment("e1", "task", id).value();
      members.push_back(reward_member_of(all.at(0)));
    }
    const auto g = pay_group(members, rules).value();
    r.group = "e1/1";
    r.experiment = "e1";
    r.task = "task";
    for (const auto& m : g.members) {
      r.variants.push_back(m.variant);
      r.attempts.push_back(m.attempt);
      r.scores.push_back(m.score);
      r.rewards.push_back(m.reward);
    }
    r.rule = to_text(rules);
    r.mean = g.mean;
    r.deviation = g.deviation;
    r.floor = g.floor;
    return r;
  }

  temporary_folder folder_;
  std::unique_ptr<store> s_;
};

TEST_F(reward_audits, recompute_what_was_paid_by_the_rules_of_then) {
  evaluate("slow", 1);
  evaluate("fast", 2);
  evaluate("wrong", 0);
  evaluate("doubted", 9, "faster than its arithmetic");
  reward_options rules;
  rules.rule = "cuda_l1";
  rules.clip = 0.5;
  ASSERT_TRUE(holds(s_->put_rewards(paid({"slow", "fast", "wrong", "doubted"}, rules))));
  const auto all = audit_groups(*s_, "e1");
  ASSERT_TRUE(holds(all));
  ASSERT_EQ(all->size(), 1u);
  const auto& a = all->front();
  EXPECT_EQ(a.finding, reward_finding::recomputed);
  EXPECT_TRUE(a.differences.empty());
  EXPECT_EQ(a.again.rules.clip, 0.5);
  EXPECT_EQ(a.again.members[1].reward, 0.5);
  const auto text = group_text(a, "doubted", {});
  EXPECT_THAT(text, AllOf(HasSubstr("Group e1/1, rewards by the rule cuda_l1: recomputed from the samples"),
                          HasSubstr("this one: suspicious, and not checked more deeply"), HasSubstr("nothing"),
                          HasSubstr("paid nothing, and not part of the mean"), HasSubstr("3 of 4 members count")));
  EXPECT_THAT(group_text(a, "fast", {}), HasSubstr("clipped to +-0.5: the reward is 0.5"));
}

TEST_F(reward_audits, find_rewards_and_samples_that_were_changed) {
  evaluate("slow", 1);
  evaluate("fast", 2);
  auto r = paid({"slow", "fast"});
  r.rewards[1] = 1.25;
  ASSERT_TRUE(holds(s_->put_rewards(r)));
  const auto a = audit_group(*s_, "e1/1").value();
  EXPECT_EQ(a.finding, reward_finding::differs);
  ASSERT_EQ(a.differences.size(), 1u);
  EXPECT_EQ(a.differences[0], "variant fast: the reward was 1.25, but its samples give 1");
  EXPECT_THAT(group_text(a, "slow", {}), HasSubstr("not what was paid"));
}

TEST_F(reward_audits, of_a_group_that_was_not_paid_say_so_and_use_the_defaults) {
  evaluate("slow", 1);
  evaluate("fast", 2);
  variant_record in_flight;
  in_flight.id = "in flight";
  in_flight.task = "task";
  in_flight.group = "e1/1";
  ASSERT_TRUE(holds(s_->reserve(in_flight, "e1")));
  const auto a = audit_group(*s_, "e1/1").value();
  EXPECT_EQ(a.finding, reward_finding::not_paid);
  ASSERT_EQ(a.again.members.size(), 3u);
  EXPECT_NEAR(a.again.members[1].reward, 1, 1e-9);
  EXPECT_EQ(a.again.members[2].doubt, "it has no verdict in e1");
  EXPECT_TRUE(audit_groups(*s_, "e1").value().empty());
  EXPECT_EQ(audit_group(*s_, "e1/2").error().code, errc::not_found);
}

TEST_F(reward_audits, of_rules_that_cannot_be_read_are_an_error_that_names_the_group) {
  evaluate("slow", 1);
  auto r = paid({"slow"});
  r.rule = "score";
  ASSERT_TRUE(holds(s_->put_rewards(r)));
  const auto a = audit_groups(*s_, "e1");
  ASSERT_FALSE(a);
  EXPECT_THAT(a.error().message, HasSubstr("group e1/1"));
}

TEST_F(reward_audits, list_hack_cases_by_class_and_those_that_a_variant_is_like) {
  hack_case c;
  c.kind = hack_class::writes_to_an_input;
  c.variant = "hacked";
  c.task = "task";
  c.experiment = "e1";
  c.result = outcome::wrote_input;
  c.gate = "run";
  c.reason = "a write into \"x\"";
  c.origin = "policy llm";
  c.model = "some model";
  c.signature = sign_source(source);
  ASSERT_TRUE(holds(s_->put_hack_case(c)));
  judged_file refused;
  refused.task = "task";
  refused.name = "memo.py";
  refused.language = "PyTorch";
  refused.kind = "memo";
  refused.why = "inputs that it has met take less time";
  refused.time_unix_ms = 1;
  judged_file wrong = refused;
  wrong.kind = "wrong_answer";
  wrong.source = "another";
  for (const auto& f : {refused, wrong})
    ASSERT_TRUE(holds(s_->put_judged_file(with_id(f))));
  const auto files = hacks_in_files(*s_, 9).value();
  ASSERT_EQ(files.size(), 1u) << "a wrong answer is no hack";
  EXPECT_THAT(hacks_text({}, files, {}), AllOf(HasSubstr("memo.py, PyTorch"), HasSubstr("memo: inputs that")));
  EXPECT_EQ(at(hacks_json({}, files), "files.0.kind"), json("memo"));
  const auto all = hacks_by_class(*s_, 9).value();
  EXPECT_THAT(hacks_text(all, {}, {}),
              AllOf(HasSubstr("writes to an input\n  h1  "), HasSubstr("policy llm, some model"),
                    HasSubstr("wrote_input, gate run: a write into \"x\"")));
  EXPECT_EQ(at(hacks_json(all, {}), "classes.0.class"), json("writes_to_an_input"));
  EXPECT_EQ(at(hacks_json(all, {}), "classes.0.cases.0.variant"), json("hacked"));
  variant_record v;
  v.id = "hacked";
  v.program = "not a program";
  EXPECT_THAT(likeness_text(hacks_like(*s_, v).value()), HasSubstr("is hack case h1 (writes to an input), e1"));
  v.id = "other";
  EXPECT_TRUE(hacks_like(*s_, v).value().empty());
  v.program = std::string(R"({"format": 1, "name": "p", "inputs": [{"name": "a", "dtype": "float32", "shape": [32]}],
    "steps": [{"alloc": "b", "dtype": "float32", "shape": [32]},
              {"launch": "f", "grid": [1, 1, 1], "block": [32, 1, 1], "args": [{"in": "a"}, {"out": "b"}]}],
    "outputs": ["b"]})") +
              "\n---\n" + source;
  const auto like = hacks_like(*s_, v).value();
  EXPECT_THAT(likeness_text(like), HasSubstr("100% like hack case h1"));
  EXPECT_FALSE(like.at(0).is_own);
}

}  // namespace
}  // namespace cudal1::cli
