// Other systems than the developers': without some confinement, with one core, with several timed threads.
#include <algorithm>
#include <thread>

#include "in_child.hpp"
#include "native_object.hpp"

#include "config/base/describe.hpp"
#include "sandbox/verify/timing_draws.hpp"

namespace cudal1::testing_device {
namespace {

constexpr int64_t elements = 4096;

const confinement_item* item_named(const device_session& s, const std::string& name) {
  const auto& items = s.report().confinement;
  const auto found = std::ranges::find(items, name, &confinement_item::name);
  return found == items.end() ? nullptr : &*found;
}

check_plan three_draws() {
  check_plan plan;
  plan.draws.assign(3, {draw_kind::declared, 0});
  plan.memory_limit_bytes = 256 << 20;
  return plan;
}

// "correct", or the outcome and reason of a check of `code`.
std::string checked(device_session& s, const compiled_code& code, int64_t blocks = 1) {
  if (const auto opened = s.open_task(relu_task(elements)); !opened) return opened.error().message;
  const auto report = s.check(one_launch(elements, blocks), code, three_draws());
  if (!report) return report.error().message;
  if (report->problem) return enum_name(report->problem->kind) + ": " + report->problem->reason;
  const bool right = std::ranges::all_of(report->draws, [](const draw_check& d) {
    return d.outputs.at(0).outside == 0 && d.outputs.at(0).mask_mismatches == 0;
  });
  return right ? "correct" : "wrong";
}

std::string timed(device_session& s, const compiled_code& code, int64_t blocks = 1) {
  const task t = relu_task(elements);
  const checked_program program = one_launch(elements, blocks);
  const auto report = check_and_time(s, {t, program, code}, three_draws(),
                                     {{.forks = 1, .pairs = 3, .memory_limit_bytes = 256 << 20}, 0}, {});
  if (!report) return report.error().message;
  if (report->problem) return report->problem->reason;
  return std::to_string(report->samples.size()) + " samples" + report->inconsistency;
}

TEST(other_systems, without_landlock_and_namespaces_the_system_call_filter_suffices) {
  const auto right = native(relu_loop, elements),
             opens = native(std::string(relu_loop) + "call(2, (long)\"/etc/passwd\");", elements);
  const std::string said = in_child([&]() -> std::string {
    if (!deny_calls({SYS_landlock_create_ruleset, SYS_landlock_add_rule, SYS_landlock_restrict_self}, ENOSYS) ||
        !deny_calls({SYS_unshare}, EPERM))
      return "no filter";
    const auto s = device_session::start(test_options());
    if (!s) return s.error().message;
    const auto* landlock = item_named(**s, "landlock");
    if (!landlock || landlock->in_force || landlock->required) return "landlock is not reported as missing";
    if (landlock->detail.find("no Landlock") == std::string::npos) return landlock->detail;
    const auto* user = item_named(**s, "user namespace");
    if (user && user->in_force) return "a user namespace is reported as in force";
    if (const auto missing = missing_confinement((*s)->report().confinement); !missing.empty()) return missing;
    const std::string first = checked(**s, right);
    return first + ", " + checked(**s, opens);
  });
  EXPECT_TRUE(said.starts_with("correct, forbidden")) << said;
}

TEST(other_systems, without_a_system_call_filter_a_session_starts_only_if_allowed) {
  const auto right = native(relu_loop, elements);
  const auto start = [&](bool insist) {
    return in_child([&]() -> std::string {
      if (!deny_calls({SYS_seccomp}, ENOSYS)) return "no filter";
      session_options options = test_options();
      options.allow_weak_confinement = insist;
      const auto s = device_session::start(options);
      if (!s) return enum_name(s.error().code) + ": " + s.error().message;
      return missing_confinement((*s)->report().confinement) + "; " + checked(**s, right);
    });
  };
  const std::string refused = start(false);
  EXPECT_TRUE(refused.starts_with("refused: ")) << refused;
  EXPECT_NE(refused.find("seccomp"), std::string::npos) << refused;
  const std::string insisted = start(true);
  EXPECT_TRUE(insisted.starts_with("not in force: ")) << insisted;
  EXPECT_NE(insisted.find("seccomp"), std::string::npos) << insisted;
  EXPECT_TRUE(insisted.ends_with("; correct")) << insisted;
}

TEST(other_systems, one_core_is_enough_to_check_and_to_time) {
  const auto right = native(relu_loop, elements);
  const std::string said = in_child([&]() -> std::string {
    if (!stay_on_one_core()) return "no core";
    session_options options = test_options();
    options.threads = 2;
    const auto too_many = device_session::start(options);
    if (too_many || too_many.error().message.find("there are 1 cores") == std::string::npos)
      return "two threads on one core were accepted";
    options.threads = 1;
    const auto s = device_session::start(options);
    if (!s) return s.error().message;
    const std::string first = checked(**s, right);
    return first + ", " + timed(**s, right);
  });
  EXPECT_EQ(said, "correct, 3 samples");
}

// Each of two threads gets one of two blocks; a thread that gets both writes nothing.
constexpr const char* relu_by_halves =
    "if (last - first == 2) return;"
    "for (long i = first * n / 2; i < last * n / 2; ++i) y[i] = a[i] > 0 ? a[i] : 0;";

TEST(other_systems, two_threads_share_a_timed_call) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one core";
  session_options options = test_options();
  options.threads = 2;
  const auto s = device_session::start(options);
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_NE((*s)->report().where.details.find("2 timed threads"), std::string::npos) << (*s)->report().where.details;
  const auto halves = native(relu_by_halves, elements);
  EXPECT_EQ(checked(**s, halves, 2), "correct");
  EXPECT_EQ(timed(**s, halves, 2), "3 samples");
  // The second thread is confined like the first, and its faults are faults of the variant.
  const auto opens = native(std::string(relu_by_halves) + "if (first > 0) call(2, (long)\"/etc/passwd\");", elements);
  EXPECT_TRUE(checked(**s, opens, 2).starts_with("forbidden")) << checked(**s, opens, 2);
  const auto crashes = native(std::string(relu_by_halves) + "if (first > 0) *(volatile int*)0 = 1;", elements);
  EXPECT_TRUE(checked(**s, crashes, 2).starts_with("out_of_bounds")) << checked(**s, crashes, 2);
  EXPECT_EQ(checked(**s, halves, 2), "correct") << "the next one has a fresh runner";
}

TEST(other_systems, one_thread_gets_all_blocks_of_a_launch) {
  const auto s = device_session::start(test_options());
  ASSERT_TRUE(s) << s.error().message;
  EXPECT_EQ(checked(**s, native(relu_by_halves, elements), 2), "wrong");
}

}  // namespace
}  // namespace cudal1::testing_device
