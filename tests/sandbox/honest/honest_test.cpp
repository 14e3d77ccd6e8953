// Every honest surprise, through all gates, the timing pool, the audit and the null models, on as many fresh pools as
// CUDAL1_TEST_REPEAT says, on the device CUDAL1_TEST_DEVICE; with CUDAL1_TEST_ONLY those whose name has these words.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "config/base/describe.hpp"
#include "config/device_data.hpp"
#include "sandbox/device/device_type.hpp"
#include "sandbox/device/session.hpp"
#include "sandbox/verify/auditor.hpp"
#include "sandbox/verify/null_models.hpp"
#include "sandbox/verify/timing_draws.hpp"
#include "tests/sandbox/honest/surprises.hpp"

namespace cudal1::testing_honest {
namespace {

std::string from_environment(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

class honest_surprises : public testing::Test {
 protected:
  void SetUp() override {
    const std::string device = from_environment("CUDAL1_TEST_DEVICE", "cpu");
    const device_type* const type = find_device_type(device);
    ASSERT_NE(type, nullptr) << device;
    profile = type->traits().profile;
    std::string architecture;
    const auto found = type->discover();
    ASSERT_TRUE(found) << found.error().message;
    for (const auto& d : *found)
      if (d.name == device) architecture = d.architecture;
    ASSERT_NE(architecture, "") << "this machine has no " << device;
    // The programs are ours, so a machine that confines less, as a rented container, will do.
    auto made = type->make_compiler({.architecture = architecture, .allow_weak_confinement = true});
    ASSERT_TRUE(made) << made.error().message;
    compiler = std::move(*made);
    session_options options;
    options.device = device;
    options.allow_weak_confinement = true;
    auto started = device_session::start(options);
    ASSERT_TRUE(started) << started.error().message;
    session = std::move(*started);
    if (const auto data = find_device_data(session->report().where.model); data) specifications = *data;
  }

  // "" or why it was refused.
  std::string refusal(const surprise& s, const checked_program& program, const compiled_code& code) {
    if (const auto opened = session->open_task(s.of, timing_pool::renew); !opened) return opened.error().message;
    check_plan plan = plan_check(s.of, {});
    check_plan fresh = plan;
    for (auto& d : fresh.draws)
      d.seed = uint64_t{system()} << 32 | system() | 1;
    const auto report = session->check(program, code, fresh);
    if (!report) return report.error().message;
    if (const auto j = judge(s.of, fresh, *report, {}); j.result != outcome::correct) return j.reason;
    const auto timed = check_and_time(*session, {s.of, program, code}, plan, {{.forks = 2, .pairs = 5}, 0}, {});
    if (!timed) return timed.error().message;
    if (timed->problem) return timed->problem->reason;
    if (timed->samples.empty()) return "no samples: " + timed->inconsistency;
    audit_options rules;
    rules.device = specifications;
    rules.variant_steps = static_cast<int64_t>(program.text.steps.size());
    const audit_report audited = audit(s.of, *report, *timed, estimate_timing(timed->samples), rules);
    // What a loaded machine cannot measure is no refusal.
    return audited.accepted || audited.result == outcome::unmeasurable ? "" : audited.reason;
  }

  void expect_accepted(const std::vector<surprise>& programs);

  std::string profile;
  std::shared_ptr<kernel_compiler> compiler;
  std::unique_ptr<device_session> session;
  std::optional<device_data> specifications;
  std::random_device system;
};

void honest_surprises::expect_accepted(const std::vector<surprise>& programs) {
  const int repeat = std::stoi(from_environment("CUDAL1_TEST_REPEAT", "1"));
  const std::string only = from_environment("CUDAL1_TEST_ONLY", "");
  int refusals = 0;
  for (const auto& s : programs) {
    if (std::string_view(s.name).find(only) == std::string_view::npos) continue;
    const auto program = check_program_text(s.program);
    ASSERT_TRUE(program) << s.name << ": " << program.error().message;
    const auto code = compiler->compile(*program);
    ASSERT_TRUE(code) << s.name << ": " << code.error().message;
    ASSERT_TRUE(session->open_task(s.of));
    const auto null = check_null_models(*session, s.of, plan_check(s.of, {}), {});
    ASSERT_TRUE(null) << s.name << ": " << null.error().message;
    EXPECT_FALSE(null->is_unexplained()) << s.name << ": " << null->gate().reason;
    std::map<std::string, int> reasons;
    int accepted = 0;
    for (int i = 0; i < repeat; ++i) {
      const std::string why = refusal(s, *program, *code);
      accepted += why.empty() ? 1 : 0;
      if (!why.empty()) ++reasons[why];
    }
    refusals += repeat - accepted;
    std::cout << fmt::format("  {:50} {} of {} pools, null models: {}\n", s.name, accepted, repeat,
                             null->gate().reason);
    for (const auto& [why, count] : reasons)
      std::cout << fmt::format("    refused {} times: {}\n", count, why);
  }
  EXPECT_EQ(refusals, 0);
}

TEST_F(honest_surprises, are_accepted_on_every_pool) {
  expect_accepted(surprises(profile));
}

TEST_F(honest_surprises, of_experts_are_accepted_on_every_pool) {
  expect_accepted(expert_programs(profile));
}

// The share of the newer gates in an evaluation: both plans in one run, one after the other.
TEST_F(honest_surprises, cost_of_the_draws_and_null_models) {
  using clock = std::chrono::steady_clock;
  const auto ms_of = [](auto&& work) {
    const auto start = clock::now();
    work();
    return std::chrono::duration<double, std::milli>(clock::now() - start).count();
  };
  double before_ms = 0, after_ms = 0, null_ms = 0, time_ms = 0;
  const int rounds = 3 * std::stoi(from_environment("CUDAL1_TEST_REPEAT", "1"));
  int count = 0;
  for (const auto& s : surprises(profile)) {
    const auto program = check_program_text(s.program);
    ASSERT_TRUE(program);
    const auto code = compiler->compile(*program);
    ASSERT_TRUE(code) << code.error().message;
    ASSERT_TRUE(session->open_task(s.of));
    const check_plan now = plan_check(s.of, {});
    check_plan then = now;
    std::erase_if(then.draws, [](const draw_request& d) {
      return d.kind == draw_kind::outlier_below || d.kind == draw_kind::small_integers ||
             d.kind == draw_kind::impulses;  // `outliers` came twice: the one above takes the second's place
    });
    ASSERT_TRUE(session->check(*program, *code, now));  // the pool is there
    null_ms += ms_of([&] { (void)check_null_models(*session, s.of, now, {}); });
    for (int i = 0; i < rounds; ++i) {
      before_ms += ms_of([&] { (void)session->check(*program, *code, then); });
      after_ms += ms_of([&] { (void)session->check(*program, *code, now); });
      time_ms += ms_of([&] {
        (void)check_and_time(*session, {s.of, *program, *code}, now, {{.forks = 3, .pairs = 5}, 0}, {});
      });
    }
    ++count;
  }
  const double n = static_cast<double>(count) * rounds;
  std::cout << fmt::format(
      "  check with the draws of before {:.2f} ms, with those of now {:.2f} ms; timing {:.2f} ms: {:+.1f}% of an "
      "evaluation without compilation\n  null models {:.2f} ms a task, once: {:.1f}% of 30 evaluations\n",
      before_ms / n, after_ms / n, time_ms / n, 100 * (after_ms - before_ms) / (before_ms + time_ms), null_ms / count,
      100 * null_ms / count / (30 * (before_ms + time_ms) / n));
}

}  // namespace
}  // namespace cudal1::testing_honest
