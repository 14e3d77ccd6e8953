// Tasks whose own program needs more memory than there is.
#include "native_object.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "sandbox/program/memory_need.hpp"
#include "sandbox/verify/timing_draws.hpp"
#include "sandbox/verify/verifier.hpp"

namespace cudal1::testing_device {
namespace {

using testing::Contains;
using testing::HasSubstr;

constexpr int64_t mib = int64_t{1} << 20;

// y = `last` of the sums over k of a[i, j] c[k], through a tensor of 32 MiB.
task large_task(const std::string& between = "") {
  const std::string product = between.empty() ? "m" : "n";
  auto t = read_task(
      R"({"format":1,"name":"large","summary":"large","family":"reduction","inputs":[{"name":"a","dtype":"float32",
      "shape":[8,4096],"draw":{"distribution":"normal","mean":0,"std":1}}],"weights":[{"name":"c","dtype":"float32",
      "shape":[256],"draw":{"distribution":"uniform","low":0,"high":1}}],"steps":[
      {"aten":"aten::unsqueeze","args":{"self":"a","dim":2},"out":["u"]},
      {"aten":"aten::mul.Tensor","args":{"self":"u","other":"c"},"out":["m"]},)" +
          between + R"({"aten":"aten::sum.dim_IntList","args":{"self":")" + product +
          R"(","dim":[2]},"out":["s"]},{"aten":"aten::relu","args":{"self":"s"},"out":["y"]}],"outputs":["y"]})",
      "cpu");
  if (!t) throw std::runtime_error(t.error().message);
  return *t;
}

// The same with the sum of c, which setup makes.
checked_program without_the_large_tensor() {
  auto p = check_program_text(
      R"({"format":1,"name":"small","inputs":[{"name":"a","dtype":"float32","shape":[8,4096]}],"weights":[{"name":"c",
      "dtype":"float32","shape":[256]}],"setup":[{"aten":"aten::sum","args":{"self":"c"},"out":["all"]}],"steps":[
      {"aten":"aten::mul.Tensor","args":{"self":"a","other":"all"},"out":["s"]},
      {"aten":"aten::relu","args":{"self":"s"},"out":["y"]}],"outputs":["y"]})");
  if (!p) throw std::runtime_error(p.error().message);
  return *p;
}

class own_program_memory_test : public device_test {
 protected:
  static expected<timing_report> timed_within(const task& t, const checked_program& p, int64_t bytes) {
    verification_options options;
    options.memory_limit_mb = bytes / mib;
    options.call_limit_ms = 20'000;  // of a machine under load
    const timing_plan plan{.forks = 2, .pairs = 3, .call_limit_ms = 20'000, .memory_limit_bytes = bytes};
    return check_and_time(*session, {t, p, {}}, plan_check(t, options), {plan, 0}, options);
  }
};

TEST_F(own_program_memory_test, it_is_timed_in_parts_where_a_runner_has_too_little) {
  const task t = large_task();
  ASSERT_TRUE(session->open_task(t));
  EXPECT_EQ(memory_need_of(t.reference).bytes, 32 * mib + 8 * 4096 * 4);
  const auto whole = timed_within(t, without_the_large_tensor(), 64 * mib);
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->reference_parts, 1);
  const auto parts = timed_within(t, without_the_large_tensor(), 24 * mib);
  ASSERT_TRUE(parts) << parts.error().message;
  ASSERT_FALSE(parts->problem) << parts->problem->reason;
  EXPECT_EQ(parts->inconsistency, "");
  EXPECT_EQ(parts->samples.size(), 6U);
  EXPECT_EQ(parts->reference_parts, 2);
  EXPECT_THAT(parts->notes,
              Contains(HasSubstr("the task's own program, whose tensors need 32 MiB, was timed in 2 parts "
                                 "of its batch")));
}

TEST_F(own_program_memory_test, is_an_error_that_says_what_it_needs_where_parts_do_not_help) {
  const task t = large_task(R"({"aten":"aten::cumsum","args":{"self":"m","dim":0},"out":["n"]},)");
  ASSERT_TRUE(session->open_task(t));
  auto p = t.reference;
  const auto failed = timed_within(t, p, 256 * mib);
  EXPECT_TRUE(failed) << "there is enough: " << failed.error().message;
  const auto small = check_program_text(
      R"({"format":1,"name":"small","inputs":[{"name":"a","dtype":"float32","shape":[8,4096]}],"weights":[{"name":"c",
      "dtype":"float32","shape":[256]}],"setup":[{"aten":"aten::sum","args":{"self":"c"},"out":["all"]}],"steps":[
      {"aten":"aten::mul.Tensor","args":{"self":"a","other":"all"},"out":["s"]},
      {"aten":"aten::cumsum","args":{"self":"s","dim":0},"out":["z"]},
      {"aten":"aten::relu","args":{"self":"z"},"out":["y"]}],"outputs":["y"]})");
  ASSERT_TRUE(small) << small.error().message;
  const auto refused = timed_within(t, *small, 24 * mib);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::unsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("does not fit a runner: large: its tensors need at least 64 MiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("verification.memory_limit_mb"));
}

// The referee has half of the memory that the device may use.
TEST(referee_memory_test, expected_outputs_are_computed_in_parts_and_are_the_same) {
  auto options = test_options();
  options.memory_bytes = 64 * mib;
  auto started = device_session::start(options);
  ASSERT_TRUE(started) << started.error().message;
  const task t = large_task();
  const auto opened = (*started)->open_task(t);
  ASSERT_TRUE(opened) << opened.error().message;
  verification_options gates;
  const auto plan = plan_check(t, gates);
  for (const auto& p : {without_the_large_tensor(), t.reference}) {
    const auto report = (*started)->check(p, {}, plan);
    ASSERT_TRUE(report) << report.error().message;
    const auto judged = judge(t, plan, *report, gates);
    EXPECT_EQ(judged.result, outcome::correct) << judged.reason;
  }
  const auto mixed =
      (*started)->open_task(large_task(R"({"aten":"aten::cumsum","args":{"self":"m","dim":0},"out":["n"]},)"));
  ASSERT_FALSE(mixed);
  EXPECT_THAT(mixed.error().message, HasSubstr("its tensors need at least"));
  EXPECT_THAT(mixed.error().message, HasSubstr("it cannot be computed in parts that fit"));
}

}  // namespace
}  // namespace cudal1::testing_device
