// One evaluation as its device sees it: events in, effects out. No actor, no session, no device.
#include "actors/agent/device_evaluation.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using fault_origin = device_evaluation::fault_origin;

std::vector<std::string> names_of(const device_evaluation::effects& all) {
  struct namer {
    std::string operator()(const device_evaluation::open_task&) const { return "open task"; }
    std::string operator()(const device_evaluation::check&) const { return "check"; }
    std::string operator()(const device_evaluation::check_null_models&) const { return "check null models"; }
    std::string operator()(const device_evaluation::renew_pool&) const { return "renew pool"; }
    std::string operator()(const device_evaluation::time& e) const {
      return fmt::format("time {}", e.batch.plan.forks);
    }
    std::string operator()(const device_evaluation::check_again&) const { return "check again"; }
    std::string operator()(const device_evaluation::ask_for_plan&) const { return "ask for plan"; }
    std::string operator()(const device_evaluation::ask_for_judgement&) const { return "ask for judgement"; }
    std::string operator()(const device_evaluation::ask_what_to_time&) const { return "ask what to time"; }
    std::string operator()(const device_evaluation::tell_times&) const { return "tell times"; }
    std::string operator()(const device_evaluation::ask_for_audit&) const { return "ask for audit"; }
    std::string operator()(const device_evaluation::extend_lease& e) const {
      return fmt::format("extend lease to {} ms", e.limit_ms);
    }
    std::string operator()(const device_evaluation::finish& e) const {
      return "finish: " + std::string(enum_name(e.result.result));
    }
    std::string operator()(const device_evaluation::lose& e) const {
      return fmt::format("lose: {}{}", enum_name(e.why.code), e.task_refused ? ", task refused" : "");
    }
  };
  std::vector<std::string> names;
  for (const auto& each : all)
    names.push_back(std::visit(namer(), each));
  return names;
}

class evaluation_on_a_device : public testing::Test {
 protected:
  static device_evaluation evaluation() {
    message::work_item item;
    item.lease = 5;
    item.attempt.task = "t";
    item.attempt.variant = "v";
    item.attempt.number = 2;
    compiled_code code;
    item.what = shared_task(task{});
    item.code = shared_code(std::move(code));
    environment where;
    where.id = "here";
    where.model = "H200";
    return {std::move(item), where};
  }
  static message::timing_step batch(int forks, bool renew = false) {
    message::timing_step s;
    s.measure = true;
    s.renew = renew;
    s.plan.forks = forks;
    s.plan.pairs = 5;
    return s;
  }
  static message::timing_step result(double score) {
    message::timing_step s;
    s.estimated = true;
    s.confirmed = true;
    s.estimate.score = score;
    return s;
  }
  static timing_report times(int samples) {
    timing_report r;
    r.samples.resize(static_cast<std::size_t>(samples));
    return r;
  }
  static message::judged judged(outcome o) {
    message::judged j;
    j.result = o;
    j.reason = "because";
    return j;
  }
  // Up to the first batch of times.
  static device_evaluation timed_next() {
    auto e = evaluation();
    e.begin();
    e.opened(1, 2);
    e.planned({});
    e.checked({}, 3);
    e.next_to_time(batch(2));
    e.judged(judged(outcome::correct));
    EXPECT_THAT(names_of(e.null_models_checked({}, 4)), ElementsAre("time 2"));
    return e;
  }
};

TEST_F(evaluation_on_a_device, goes_from_the_open_task_to_the_audited_verdict) {
  auto e = evaluation();
  EXPECT_THAT(names_of(e.begin()), ElementsAre("ask for plan", "open task"));
  EXPECT_THAT(names_of(e.opened(2.5, 20)), ElementsAre("extend lease to 1000 ms"));
  EXPECT_THAT(names_of(e.planned({})), ElementsAre("ask what to time", "check"));
  check_report checked;
  checked.notes = {"graph: x is copied"};
  EXPECT_THAT(names_of(e.checked(checked, 30)), ElementsAre("ask for judgement"));
  EXPECT_THAT(e.next_to_time(batch(2)), IsEmpty()) << "nothing is timed before it is judged";
  EXPECT_THAT(names_of(e.judged(judged(outcome::correct))), ElementsAre("check null models"));
  EXPECT_THAT(names_of(e.null_models_checked({}, 0)), ElementsAre("time 2"));
  EXPECT_THAT(names_of(e.timed(times(10), 40)), ElementsAre("tell times"));
  EXPECT_THAT(names_of(e.next_to_time(batch(3))), ElementsAre("time 3"));
  EXPECT_THAT(names_of(e.timed(times(15), 50)), ElementsAre("tell times"));
  const auto audit = e.next_to_time(result(2));
  ASSERT_THAT(names_of(audit), ElementsAre("ask for audit"));
  const auto& evidence = std::get<device_evaluation::ask_for_audit>(audit.front()).evidence;
  EXPECT_EQ(evidence.asked_pairs, 25);
  EXPECT_EQ(evidence.timed.samples.size(), 25U);
  EXPECT_EQ(evidence.model, "H200");
  EXPECT_EQ(evidence.claim.score, 2);
  EXPECT_EQ(evidence.claim.attempt, 2);
  EXPECT_EQ(evidence.claim.environment_id, "here");
  EXPECT_THAT(evidence.claim.notes, ElementsAre("graph: x is copied"));
  EXPECT_EQ(evidence.claim.stage_ms, (std::map<std::string, double>{{"open", 20}, {"check", 30}, {"time", 90}}));
  EXPECT_THAT(names_of(e.audited(evidence.claim)), ElementsAre("finish: correct"));
}

TEST_F(evaluation_on_a_device, checks_as_soon_as_the_plan_is_there_and_the_task_is_open) {
  auto e = evaluation();
  e.begin();
  EXPECT_THAT(e.planned({}), IsEmpty());
  EXPECT_THAT(names_of(e.opened(1, 2)), ElementsAre("extend lease to 400 ms", "ask what to time", "check"));
  auto slow = evaluation();
  slow.begin();
  check_plan plan;
  plan.call_limit_ms = 2000;
  slow.planned(plan);
  slow.opened(500, 2);
  EXPECT_EQ(slow.plan().call_limit_ms, 5000) << "ten times the task's own program";
}

TEST_F(evaluation_on_a_device, times_nothing_that_is_wrong_or_pays_for_nothing) {
  auto wrong = evaluation();
  wrong.begin();
  wrong.opened(1, 2);
  wrong.planned({});
  wrong.checked({}, 3);
  const auto end = wrong.judged(judged(outcome::wrong_answer));
  ASSERT_THAT(names_of(end), ElementsAre("finish: wrong_answer"));
  EXPECT_EQ(std::get<device_evaluation::finish>(end.front()).result.reason, "because");

  auto weak = evaluation();
  weak.begin();
  weak.opened(1, 2);
  weak.planned({});
  weak.checked({}, 3);
  weak.judged(judged(outcome::correct));
  null_report zeros;
  zeros.passed = {"zeros"};
  zeros.checked = 1;
  const auto refused = weak.null_models_checked(zeros, 4);
  ASSERT_THAT(names_of(refused), ElementsAre("finish: unexplained"));
  EXPECT_THAT(std::get<device_evaluation::finish>(refused.front()).result.reason, HasSubstr("zeros"));
}

TEST_F(evaluation_on_a_device, counts_only_pairs_on_the_renewed_pool_as_confirmation) {
  auto e = timed_next();
  e.timed(times(10), 5);
  EXPECT_THAT(names_of(e.next_to_time(batch(4, true))), ElementsAre("renew pool"));
  EXPECT_THAT(names_of(e.renewed(6)), ElementsAre("time 4"));
  e.timed(times(20), 7);
  const auto audit = e.next_to_time(result(3));
  const auto& evidence = std::get<device_evaluation::ask_for_audit>(audit.front()).evidence;
  EXPECT_EQ(evidence.asked_pairs, 20);
  EXPECT_EQ(evidence.timed.samples.size(), 30U);
  EXPECT_EQ(evidence.claim.stage_ms.at("time"), 18);
}

TEST_F(evaluation_on_a_device, ends_where_a_timed_call_is_wrong_or_no_pair_could_be_timed) {
  auto e = timed_next();
  auto r = times(3);
  r.inconsistency = "output y differs";
  auto end = e.timed(r, 5);
  ASSERT_THAT(names_of(end), ElementsAre("finish: inconsistent"));
  EXPECT_EQ(std::get<device_evaluation::finish>(end.front()).result.reason, "when timed: output y differs");
  EXPECT_EQ(std::get<device_evaluation::finish>(end.front()).result.samples.size(), 3U);

  auto crashed = timed_next();
  auto fault_report = times(0);
  fault_report.problem = fault{outcome::crash, "signal 11"};
  EXPECT_THAT(names_of(crashed.timed(fault_report, 5)), ElementsAre("finish: crash"));

  auto disturbed = timed_next();
  disturbed.timed(times(0), 5);
  EXPECT_THAT(names_of(disturbed.next_to_time({})), ElementsAre("finish: unmeasurable"));
}

TEST_F(evaluation_on_a_device, checks_what_is_suspicious_on_fresh_draws) {
  for (const bool passes : {true, false}) {
    auto e = timed_next();
    e.timed(times(10), 5);
    e.next_to_time(result(90));
    verdict v;
    v.result = outcome::correct;
    v.score = 90;
    v.confirmed = true;
    v.suspicion = "faster than the memory";
    EXPECT_THAT(names_of(e.audited(v)), ElementsAre("check again"));
    judgement j;
    j.result = passes ? outcome::correct : outcome::wrong_answer;
    j.reason = "3 of 8 draws";
    const auto end = e.checked_again(j, 8);
    ASSERT_EQ(end.size(), 1U);
    const auto& last = std::get<device_evaluation::finish>(end.front()).result;
    EXPECT_EQ(last.result, j.result);
    EXPECT_EQ(last.score, passes ? 90 : 0);
    EXPECT_EQ(last.confirmed, passes);
    EXPECT_EQ(last.gates.back().reason, "faster than the memory; on fresh draws: 3 of 8 draws");
    EXPECT_EQ(last.stage_ms.at(deep_check_gate), 8);
  }
}

TEST_F(evaluation_on_a_device, blames_a_fault_on_the_variant_only_while_that_is_resident) {
  const error broken{errc::infrastructure, "the referee died"}, cannot{errc::unsupported, "no such type"};
  const auto origin = [](const device_evaluation::effects& all) {
    return std::get<device_evaluation::lose>(all.back()).origin;
  };
  auto opening = evaluation();
  opening.begin();
  EXPECT_EQ(origin(opening.failed(broken)), fault_origin::device);
  EXPECT_THAT(names_of(opening.failed(broken)), ElementsAre("lose: infrastructure"));
  EXPECT_THAT(names_of(opening.failed({errc::corrupt, "weights"})), ElementsAre("lose: corrupt, task refused"));
  EXPECT_THAT(names_of(opening.failed({errc::out_of_memory, "80 GB"})),
              ElementsAre("lose: out_of_memory, task refused"));

  auto checking = evaluation();
  checking.begin();
  checking.opened(1, 2);
  checking.planned({});
  EXPECT_EQ(origin(checking.failed(broken)), fault_origin::variant);
  EXPECT_THAT(names_of(checking.failed(cannot)), ElementsAre("lose: unsupported, task refused"));
  checking.checked({}, 3);
  EXPECT_EQ(origin(checking.unanswered(broken)), fault_origin::node);
  checking.judged(judged(outcome::correct));
  EXPECT_EQ(origin(checking.failed(broken)), fault_origin::device) << "null models are ours";

  auto timing = timed_next();
  EXPECT_EQ(origin(timing.failed(broken)), fault_origin::variant);
  timing.timed(times(10), 5);
  timing.next_to_time(batch(4, true));
  EXPECT_EQ(origin(timing.failed(cannot)), fault_origin::device) << "the pool is renewed";
  EXPECT_THAT(names_of(timing.failed(cannot)), ElementsAre("lose: unsupported"));
}

}  // namespace
}  // namespace cudal1
