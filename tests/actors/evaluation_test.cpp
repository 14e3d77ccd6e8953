// One evaluation as its experiment sees it: events in, effects out. No actor, no store, no device.
#include "actors/experiment/evaluation.hpp"

#include <functional>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/base/describe.hpp"

namespace cudal1 {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The name of each effect, in order.
std::vector<std::string> names_of(const evaluation::effects& all) {
  struct namer {
    std::string operator()(const evaluation::reserve&) const { return "reserve"; }
    std::string operator()(const evaluation::compile&) const { return "compile"; }
    std::string operator()(const evaluation::offer&) const { return "offer"; }
    std::string operator()(const evaluation::commit&) const { return "commit"; }
    std::string operator()(const evaluation::end_attempt& e) const { return fmt::format("end {}", enum_name(e.how)); }
    std::string operator()(const evaluation::wait& e) const { return fmt::format("wait {} ms", e.delay.count()); }
    std::string operator()(const evaluation::acknowledge&) const { return "acknowledge"; }
    std::string operator()(const evaluation::refuse&) const { return "refuse"; }
    std::string operator()(const evaluation::count_fault&) const { return "count fault"; }
    std::string operator()(const evaluation::refuse_task&) const { return "refuse task"; }
    std::string operator()(const evaluation::settle&) const { return "settle"; }
    std::string operator()(const evaluation::drop&) const { return "drop"; }
    std::string operator()(const evaluation::repeat&) const { return "repeat"; }
    std::string operator()(const evaluation::unrecorded&) const { return "unrecorded"; }
  };
  std::vector<std::string> names;
  for (const auto& each : all)
    names.push_back(std::visit(namer(), each));
  return names;
}

class evaluation_of_a_variant : public testing::Test {
 protected:
  evaluation_of_a_variant() { where_.id = "here"; }

  evaluation::subject proposed() const {
    evaluation::subject s;
    s.experiment = "e1";
    s.task = shared_task(task{});
    s.variant.id = "v";
    s.variant.task = "t";
    s.program = shared_program(checked_program{});
    s.asked = start_;
    return s;
  }
  evaluation::surroundings at(std::chrono::milliseconds since = 0ms) const { return {where_, start_ + since}; }
  evaluation::surroundings ending() const {
    auto s = at();
    s.is_ending = s.is_withdrawing = true;
    return s;
  }
  static message::reserved attempt(int number = 1) {
    message::reserved r;
    r.attempt.experiment = "e1";
    r.attempt.task = "t";
    r.attempt.variant = "v";
    r.attempt.number = number;
    return r;
  }
  static message::work_done measured(double score) {
    message::work_done m;
    m.attempt = attempt().attempt;
    m.has_verdict = true;
    m.result.result = outcome::correct;
    m.result.score = score;
    m.result.stage_ms = {{"check", 30.0}, {"time", 70.0}};
    m.where.id = "there";
    return m;
  }
  static message::work_done fault(bool on_device) {
    message::work_done m;
    m.attempt = attempt().attempt;
    m.fault = "the runner died";
    m.on_device = on_device;
    return m;
  }
  static shared_code code() {
    compiled_code c;
    c.log = "no spills";
    return shared_code(std::move(c));
  }
  // Up to a device.
  evaluation offered(evaluation::subject s) const {
    evaluation e(std::move(s));
    e.begin(at());
    e.reserved(attempt(), at(10ms));
    EXPECT_THAT(names_of(e.compiled(code(), at(60ms))), ElementsAre("offer"));
    return e;
  }
  static const verdict& stored(const evaluation::effects& all) {
    return std::get<evaluation::commit>(all.back()).what->result;
  }

  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  environment where_;
};

TEST_F(evaluation_of_a_variant, goes_from_the_proposal_to_the_stored_verdict) {
  evaluation e(proposed());
  EXPECT_THAT(names_of(e.begin(at())), ElementsAre("reserve"));
  EXPECT_FALSE(e.has_attempt());
  EXPECT_THAT(names_of(e.reserved(attempt(), at(10ms))), ElementsAre("compile"));
  EXPECT_TRUE(e.has_attempt());
  EXPECT_THAT(names_of(e.compiled(code(), at(60ms))), ElementsAre("offer"));
  EXPECT_TRUE(e.is_offered());
  const auto commit = e.reported(measured(2), at(200ms));
  EXPECT_THAT(names_of(commit), ElementsAre("commit"));
  EXPECT_TRUE(e.is_offered()) << "its device holds the result until it is stored";
  const auto& what = *std::get<evaluation::commit>(commit.front()).what;
  EXPECT_EQ(what.where.id, "there");
  EXPECT_EQ(what.result.compiler_log, "no spills");
  EXPECT_EQ(what.result.stage_ms, (std::map<std::string, double>{
                                      {"propose", 10}, {"compile", 50}, {"wait", 40}, {"check", 30}, {"time", 70}}));
  const auto end = e.committed();
  EXPECT_THAT(names_of(end), ElementsAre("acknowledge", "settle"));
  EXPECT_EQ(std::get<evaluation::settle>(end.back()).what->result.score, 2);
  EXPECT_FALSE(e.has_attempt());
}

TEST_F(evaluation_of_a_variant, does_not_begin_for_a_task_or_an_experiment_that_ends) {
  EXPECT_THAT(names_of(evaluation(proposed()).begin(ending())), ElementsAre("drop"));
  auto exhausted = at();
  exhausted.no_attempts = "refused";
  EXPECT_THAT(names_of(evaluation(proposed()).begin(exhausted)), ElementsAre("drop"));
  auto second = proposed();
  second.second_look = true;
  EXPECT_THAT(names_of(evaluation(second).begin(exhausted)), ElementsAre("reserve")) << "it needs no new proposal";
}

TEST_F(evaluation_of_a_variant, needs_no_device_for_what_does_not_compile) {
  auto illegal = proposed();
  illegal.program = {};
  illegal.problem = "line 3: no such value";
  evaluation e(illegal);
  e.begin(at());
  const auto commit = e.reserved(attempt(), at());
  EXPECT_EQ(stored(commit).result, outcome::invalid);
  EXPECT_EQ(stored(commit).reason, "line 3: no such value");
  EXPECT_EQ(stored(commit).environment_id, "here");
  EXPECT_FALSE(e.is_offered());
  const std::vector<std::pair<errc, outcome>> refusals = {{errc::compile_failed, outcome::compile_error},
                                                          {errc::unsupported, outcome::compile_error},
                                                          {errc::invalid_program, outcome::compile_error},
                                                          {errc::refused, outcome::refused},
                                                          {errc::timeout, outcome::compile_timeout}};
  for (const auto& [code, result] : refusals) {
    evaluation each(proposed());
    each.begin(at());
    each.reserved(attempt(), at());
    const auto effects = each.not_compiled({code, "why"}, at());
    ASSERT_THAT(names_of(effects), ElementsAre("commit")) << enum_name(code);
    EXPECT_EQ(stored(effects).result, result) << enum_name(code);
  }
}

TEST_F(evaluation_of_a_variant, is_not_sent_to_a_device_whose_memory_it_does_not_fit) {
  auto p = check_program_text(R"({"format":1,"name":"p","inputs":[{"name":"x","dtype":"float32","shape":[512,512]}],
      "steps":[{"aten":"aten::exp","args":{"self":"x"},"out":["y"]}],"outputs":["y"]})");
  ASSERT_TRUE(p) << p.error().message;
  auto large = proposed();
  large.program = shared_program(std::move(*p));
  auto small_device = at();
  small_device.tensor_bytes = 1 << 19;
  evaluation e(large);
  e.begin(small_device);
  const auto commit = e.reserved(attempt(), small_device);
  ASSERT_THAT(names_of(commit), ElementsAre("commit"));
  EXPECT_EQ(stored(commit).result, outcome::out_of_memory);
  EXPECT_EQ(stored(commit).reason,
            "its tensors need at least 1 MiB at a time, in step 1 (aten::exp), and 512.0 KiB are allowed by "
            "verification.memory_limit_mb, on a GPU by device.gpu_memory_limit_mb");
  auto enough = at();
  enough.tensor_bytes = 1 << 20;
  evaluation fits(large);
  fits.begin(enough);
  EXPECT_THAT(names_of(fits.reserved(attempt(), enough)), ElementsAre("compile"));
}

TEST_F(evaluation_of_a_variant, is_tried_again_later_where_the_variant_cannot_be_the_cause) {
  evaluation e(proposed());
  e.begin(at());
  for (const char* delay : {"wait 500 ms", "wait 1000 ms", "wait 2000 ms"}) {
    e.reserved(attempt(), at());
    EXPECT_THAT(names_of(e.not_compiled({errc::infrastructure, "no disk"}, at())), ElementsAre("end elsewhere"));
    EXPECT_THAT(names_of(e.attempt_ended(at())), ElementsAre("count fault", delay));
    EXPECT_FALSE(e.has_attempt());
    EXPECT_THAT(names_of(e.waited(at())), ElementsAre("reserve"));
  }
  for (int i = 0; i < 20; ++i) {
    e.reserved(attempt(), at());
    e.not_compiled({errc::infrastructure, "no disk"}, at());
    e.attempt_ended(at());
    e.waited(at());
  }
  e.reserved(attempt(), at());
  e.not_compiled({errc::infrastructure, "no disk"}, at());
  EXPECT_THAT(names_of(e.attempt_ended(at())), ElementsAre("count fault", "wait 30000 ms"));
  EXPECT_THAT(names_of(e.waited(ending())), ElementsAre("drop"));
}

TEST_F(evaluation_of_a_variant, is_tried_again_at_once_where_it_may_be_the_cause_of_a_fault) {
  evaluation compiling(proposed());
  compiling.begin(at());
  compiling.reserved(attempt(), at());
  EXPECT_THAT(names_of(compiling.not_compiled({errc::corrupt, "unreadable"}, at())), ElementsAre("end on_device"));
  EXPECT_THAT(names_of(compiling.attempt_ended(at())), ElementsAre("count fault", "reserve"));
  auto e = offered(proposed());
  EXPECT_THAT(names_of(e.reported(fault(true), at())), ElementsAre("acknowledge", "end on_device"));
  EXPECT_FALSE(e.is_offered());
  EXPECT_THAT(names_of(e.attempt_ended(at())), ElementsAre("count fault", "reserve"));
  EXPECT_THAT(names_of(e.not_reserved({errc::variant_fault, "it broke two devices"}, at())), ElementsAre("commit"));
  EXPECT_EQ(e.attempt().number, 3);
  const auto end = e.committed();
  EXPECT_EQ(std::get<evaluation::settle>(end.back()).what->result.result, outcome::quarantined);
}

TEST_F(evaluation_of_a_variant, is_returned_where_it_is_known_and_repeated_where_a_policy_proposed_it) {
  const error known{errc::already_exists, "it has a verdict"};
  evaluation of_policy(proposed());
  of_policy.begin(at());
  EXPECT_THAT(names_of(of_policy.not_reserved(known, at())), ElementsAre("repeat"));
  auto by_hand = proposed();
  by_hand.is_given = true;
  evaluation given(by_hand);
  given.begin(at());
  EXPECT_THAT(names_of(given.not_reserved(known, at())), ElementsAre("drop"));
  auto again = proposed();
  again.second_look = true;
  evaluation second(again);
  second.begin(at());
  EXPECT_THAT(names_of(second.not_reserved({errc::variant_fault, "quarantined"}, at())), ElementsAre("drop"));
  evaluation refused(proposed());
  refused.begin(at());
  EXPECT_THAT(names_of(refused.not_reserved({errc::invalid_argument, "too large"}, at())),
              ElementsAre("refuse task", "drop"));
}

TEST_F(evaluation_of_a_variant, waits_for_a_store_that_cannot_be_written) {
  evaluation e(proposed());
  e.begin(at());
  EXPECT_THAT(names_of(e.not_reserved({errc::infrastructure, "the disk is full"}, at())), ElementsAre("wait 500 ms"));
  EXPECT_THAT(names_of(e.waited(at())), ElementsAre("reserve"));
  e.reserved(attempt(), at());
  e.not_compiled({errc::timeout, "too long"}, at());
  const auto wait = e.not_committed({errc::infrastructure, "the disk is full"});
  EXPECT_THAT(names_of(wait), ElementsAre("wait 0 ms"));
  EXPECT_THAT(std::get<evaluation::wait>(wait.front()).why, HasSubstr("the disk is full"));
  EXPECT_THAT(names_of(e.waited(at())), ElementsAre("commit"));
  EXPECT_THAT(names_of(e.committed()), ElementsAre("acknowledge", "settle"));
}

TEST_F(evaluation_of_a_variant, leaves_a_result_with_its_device_until_it_is_stored) {
  auto e = offered(proposed());
  EXPECT_THAT(names_of(e.reported(measured(2), at(200ms))), ElementsAre("commit"));
  EXPECT_THAT(e.reported(measured(2), at(210ms)), IsEmpty()) << "twice: both are answered once it is stored";
  EXPECT_THAT(names_of(e.not_committed({errc::infrastructure, "the disk is full"})), ElementsAre("refuse"));
  EXPECT_TRUE(e.is_offered());
  const auto again = e.reported(measured(2), at(300ms));
  EXPECT_THAT(names_of(again), ElementsAre("commit"));
  EXPECT_EQ(stored(again).stage_ms.at("wait"), 140);
  EXPECT_THAT(names_of(e.not_committed({errc::cancelled, "lost"})), ElementsAre("acknowledge", "drop"))
      << "trying again does not help";
  EXPECT_THAT(names_of(e.reported(measured(2), at(400ms))), ElementsAre("acknowledge")) << "too late";
}

TEST_F(evaluation_of_a_variant, takes_the_verdict_of_another_experiment_unless_it_would_be_the_best) {
  auto known = attempt();
  known.known.push_back(measured(2).result);
  known.known.front().confirmed = true;
  known.known.front().attempt = 7;
  auto better = at();
  better.best = 3;
  evaluation e(proposed());
  e.begin(better);
  const auto commit = e.reserved(known, better);
  ASSERT_THAT(names_of(commit), ElementsAre("commit"));
  EXPECT_FALSE(stored(commit).confirmed);
  EXPECT_EQ(stored(commit).attempt, 1);
  EXPECT_EQ(stored(commit).stage_ms.count("time"), 0U) << "it was not spent here";
  auto worse = at();
  worse.best = 1.5;
  evaluation best(proposed());
  best.begin(worse);
  EXPECT_THAT(names_of(best.reserved(known, worse)), ElementsAre("compile"));
}

TEST_F(evaluation_of_a_variant, is_withdrawn_until_a_device_has_a_result_of_it) {
  evaluation reserved_late(proposed());
  reserved_late.begin(at());
  EXPECT_THAT(names_of(reserved_late.reserved(attempt(), ending())), ElementsAre("end withdrawn"));
  EXPECT_THAT(names_of(reserved_late.attempt_ended(ending())), ElementsAre("drop"));

  evaluation compiling(proposed());
  compiling.begin(at());
  compiling.reserved(attempt(), at());
  EXPECT_THAT(names_of(compiling.withdraw()), ElementsAre("end withdrawn"));
  EXPECT_THAT(compiling.compiled(code(), ending()), IsEmpty()) << "the compiler's answer comes too late";
  EXPECT_THAT(compiling.withdraw(), IsEmpty()) << "once";
  EXPECT_THAT(names_of(compiling.attempt_ended(ending())), ElementsAre("drop"));

  auto waiting_for_device = offered(proposed());
  EXPECT_THAT(names_of(waiting_for_device.withdraw()), ElementsAre("end withdrawn"));
  auto stored_now = offered(proposed());
  stored_now.reported(measured(2), at());
  EXPECT_THAT(stored_now.withdraw(), IsEmpty()) << "its result is paid for";
}

TEST_F(evaluation_of_a_variant, is_lost_where_no_device_is_left) {
  auto e = offered(proposed());
  EXPECT_THAT(names_of(e.no_device("the GPU fell off the bus")), ElementsAre("end elsewhere"));
  auto gone = at();
  gone.no_device = "the GPU fell off the bus";
  evaluation late(proposed());
  late.begin(gone);
  late.reserved(attempt(), gone);
  EXPECT_THAT(names_of(late.compiled(code(), gone)), ElementsAre("end elsewhere"));
  EXPECT_THAT(names_of(late.attempt_not_ended({errc::infrastructure, "the disk is full"})), ElementsAre("wait 0 ms"));
  EXPECT_THAT(names_of(late.waited(gone)), ElementsAre("end elsewhere"));
}

TEST_F(evaluation_of_a_variant, of_a_task_that_a_device_refuses_or_has_no_record_of) {
  auto refused = offered(proposed());
  auto m = fault(false);
  m.task_refused = true;
  EXPECT_THAT(names_of(refused.reported(m, at())), ElementsAre("refuse task", "acknowledge", "end elsewhere"));
  auto replayed = offered(proposed());
  auto none = fault(false);
  none.unrecorded = true;
  EXPECT_THAT(names_of(replayed.reported(none, at())), ElementsAre("acknowledge", "end unrecorded"));
  EXPECT_THAT(names_of(replayed.attempt_ended(at())), ElementsAre("unrecorded")) << "neither a verdict nor a fault";
}

// ---- whatever happens ---------------------------------------------------------------------------------------------

// Answers what an evaluation asks for at random: late, twice, with errors, while its experiment ends.
class random_world {
 public:
  random_world(evaluation e, const environment& where, uint64_t seed)
      : work_(std::move(e)), where_(where), random_(seed) {}

  void run() {
    take(work_.begin(now()));
    for (int i = 0; i < 300 && !over_; ++i) {
      if (pick(20) == 0) is_ending_ = true;
      if (pick(25) == 0) take(work_.withdraw());
      if (!over_ && pick(25) == 0) take(work_.no_device("gone"));
      if (!over_ && was_offered_ && pick(25) == 0) take(work_.reported(report(), now()));
      if (!over_) answer();
    }
  }

  bool over_ = false, was_offered_ = false;
  int reserved_ = 0, ended_ = 0, settled_ = 0;
  std::vector<std::string> problems_;

 private:
  using event = std::function<evaluation::effects()>;

  int pick(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  evaluation::surroundings now() {
    evaluation::surroundings s{where_, std::chrono::steady_clock::now()};
    s.is_ending = s.is_withdrawing = is_ending_;
    return s;
  }
  message::work_done report() {
    message::work_done m;
    m.has_verdict = pick(2) == 0;
    m.on_device = pick(2) == 0;
    m.unrecorded = !m.has_verdict && pick(4) == 0;
    return m;
  }
  error trouble() { return {pick(4) == 0 ? errc::cancelled : errc::infrastructure, "trouble"}; }

  void answer() {
    if (pending_.empty()) {
      if (!work_.is_offered())
        problems_.push_back("it waits for nothing");
      else
        take(work_.reported(report(), now()));
      return;
    }
    const auto which = pending_.begin() + pick(static_cast<int>(pending_.size()));
    const event next = std::move(*which);
    pending_.erase(which);
    take(next());
  }

  void take(evaluation::effects all) {
    for (auto& each : all) {
      if (over_) problems_.push_back("an effect follows the last one");
      std::visit([this](auto& e) { carry_out(e); }, each);
    }
  }
  void carry_out(evaluation::reserve&) {
    pending_.push_back([this] {
      if (pick(4) == 0) return work_.not_reserved({errc::infrastructure, "full"}, now());
      ++reserved_;
      return work_.reserved({}, now());
    });
  }
  void carry_out(evaluation::compile&) {
    pending_.push_back([this] {
      return pick(4) == 0 ? work_.not_compiled({errc::infrastructure, "died"}, now()) : work_.compiled({}, now());
    });
  }
  void carry_out(evaluation::offer&) { was_offered_ = true; }
  void carry_out(evaluation::commit&) {
    pending_.push_back([this] { return pick(3) == 0 ? work_.not_committed(trouble()) : work_.committed(); });
  }
  void carry_out(evaluation::end_attempt&) {
    pending_.push_back([this] {
      if (pick(3) == 0) return work_.attempt_not_ended({errc::infrastructure, "full"});
      ++ended_;
      return work_.attempt_ended(now());
    });
  }
  void carry_out(evaluation::wait&) {
    pending_.push_back([this] { return work_.waited(now()); });
  }
  void carry_out(evaluation::settle&) { ++settled_, over_ = true; }
  void carry_out(evaluation::drop& e) {
    if (!e.problem.empty()) ++ended_;  // the store has ended it
    over_ = true;
  }
  void carry_out(evaluation::repeat&) { over_ = true; }
  void carry_out(evaluation::unrecorded&) { over_ = true; }
  template <class Other>
  void carry_out(Other&) {}

  evaluation work_;
  const environment& where_;
  std::mt19937_64 random_;
  bool is_ending_ = false;
  std::vector<event> pending_;
};

TEST_F(evaluation_of_a_variant, ends_once_whatever_happens_and_leaves_no_attempt_open) {
  int settled = 0, dropped = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    random_world world(evaluation(proposed()), where_, seed);
    world.run();
    ASSERT_TRUE(world.over_) << "seed " << seed;
    ASSERT_THAT(world.problems_, IsEmpty()) << "seed " << seed;
    ASSERT_EQ(world.reserved_, world.ended_ + world.settled_) << "seed " << seed;
    ++(world.settled_ > 0 ? settled : dropped);
  }
  EXPECT_GT(settled, 200);
  EXPECT_GT(dropped, 200);
}

}  // namespace
}  // namespace cudal1
