// The plain classes of a node: its devices, their holds, and supervision.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "actors/agent/supervision.hpp"
#include "actors/coordinator/device_holds.hpp"
#include "actors/coordinator/device_roster.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

node_device node(const std::string& name, const std::string& architecture, const std::string& model) {
  node_device device;
  device.name = name;
  device.architecture = architecture;
  device.model = model;
  return device;
}

device_roster two_gpus_and_a_cpu() {
  device_roster r;
  r.add(node("cpu", "cpu", ""));
  r.add(node("cuda:1", "sm_90a", "H200"));
  r.add(node("cuda:0", "sm_90a", "H200"));
  return r;
}

device_report report_of(const std::string& device) {
  device_report report;
  report.where.device = device;
  return report;
}

TEST(device_roster, gpus_come_before_the_cpu_in_their_order) {
  std::string names;
  const auto r = two_gpus_and_a_cpu();
  for (const auto& [name, entry] : r.all())
    names += name + " ";
  EXPECT_EQ(names, "cuda:0 cuda:1 cpu ");
}

TEST(device_roster, a_request_is_resolved_to_names_of_devices) {
  const auto r = two_gpus_and_a_cpu();
  EXPECT_EQ(r.choose("").value(), "cuda:0");
  EXPECT_EQ(r.choose("cuda").value(), "cuda") << "also those of machines that join later";
  EXPECT_EQ(r.choose("cuda:1").value(), "cuda:1");
  EXPECT_EQ(r.choose("cpu").value(), "cpu");
  EXPECT_EQ(r.count_here("cuda"), 2u);
  EXPECT_EQ(r.first_of("cuda").what.name, "cuda:0");
}

TEST(device_roster, a_device_that_is_not_here_is_refused_with_those_that_are) {
  const auto r = two_gpus_and_a_cpu();
  const auto refused = r.choose("cuda:0,cuda:2");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::invalid_argument);
  EXPECT_THAT(refused.error().message, testing::AllOf(HasSubstr("no device cuda:2"), HasSubstr("cuda:0, cuda:1, cpu")));
  EXPECT_FALSE(r.choose("tpu"));
}

TEST(device_roster, devices_of_two_models_are_used_by_experiments_of_their_own) {
  auto r = two_gpus_and_a_cpu();
  r.add(node("cuda:2", "sm_80", "A100"));
  EXPECT_EQ(r.choose("cuda").value(), "cuda");
  EXPECT_THAT(r.models_of("cuda"), testing::ElementsAre("H200", "A100"));
  EXPECT_THAT(r.models_of("cuda:0,cuda:1"), testing::ElementsAre("H200"));
  EXPECT_EQ(r.of_model("cuda", "A100"), "cuda:2");
  EXPECT_EQ(r.of_model("cuda:0", "A100"), "");
  r.give_up("cuda:2", {errc::infrastructure, "it hangs"});
  EXPECT_THAT(r.models_of("cuda"), testing::ElementsAre("H200"));
}

TEST(device_roster, a_device_that_is_reserved_for_the_policy_never_measures) {
  auto r = two_gpus_and_a_cpu();
  r.add(node("cuda:0", "sm_90a", "H200"), device_role::policy);
  EXPECT_FALSE(r.has("cuda:0"));
  EXPECT_EQ(r.choose("").value(), "cuda:1");
  EXPECT_EQ(r.choose("cuda").value(), "cuda");
  EXPECT_EQ(r.of_model("cuda", "H200"), "cuda:1");
  const auto refused = r.choose("cuda:0,cuda:1");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, errc::invalid_argument);
  EXPECT_THAT(refused.error().message,
              testing::AllOf(HasSubstr("cuda:0 does not measure"), HasSubstr("device.policy_devices")));
  ASSERT_EQ(r.reserved().size(), 1u);
  r.add(node("cuda:1", "sm_90a", "H200"), device_role::policy);
  EXPECT_THAT(r.choose("cuda").error().message, HasSubstr("does not measure"));
  r.add(node("cuda:1", "sm_90a", "H200"));
  EXPECT_EQ(r.choose("cuda:1").value(), "cuda:1") << "its machine has joined again, with another role for it";
}

TEST(device_roster, a_device_that_was_given_up_is_never_used_again) {
  auto r = two_gpus_and_a_cpu();
  r.give_up("cuda:0", {errc::timeout, "it hangs"});
  EXPECT_EQ(r.choose("").value(), "cuda:1");
  EXPECT_TRUE(r.choose("cuda")) << "one of them works";
  EXPECT_THAT(r.choose("cuda:0").error().message, HasSubstr("it hangs"));
  EXPECT_TRUE(r.any_usable("cuda"));
  EXPECT_FALSE(r.any_usable("cuda:0"));
  r.started("cuda:0", report_of("cuda:0"));
  EXPECT_FALSE(r.is_ready("cuda:0"));
  r.give_up("cuda:1", {});
  r.give_up("cpu", {});
  EXPECT_EQ(r.choose("").error().code, errc::infrastructure);
}

TEST(device_roster, devices_of_other_machines_come_after_ours_and_may_be_away) {
  auto r = two_gpus_and_a_cpu();
  r.add(node("b/cuda:0", "sm_90a", "H200"));
  r.add(node("b/cuda:1", "sm_80", "A100"));
  std::string names;
  for (const auto& [name, entry] : r.all())
    names += name + " ";
  EXPECT_EQ(names, "cuda:0 cuda:1 b/cuda:0 b/cuda:1 cpu ");
  EXPECT_THAT(r.of_machine("b"), testing::ElementsAre("b/cuda:0", "b/cuda:1"));
  EXPECT_EQ(r.choose("cuda:0,b/cuda:0").value(), "cuda:0,b/cuda:0");
  EXPECT_EQ(r.choose("b/cuda").value(), "b/cuda");
  EXPECT_EQ(r.of_model("cuda", "H200"), "cuda:0,cuda:1,b/cuda:0");
  EXPECT_EQ(r.count_here("cuda:0,b/cuda:0"), 2u);
  r.started("b/cuda:0", report_of("cuda:0"));
  EXPECT_EQ(r.first_of("cuda").what.name, "b/cuda:0") << "the first that is ready";
  EXPECT_EQ(r.why_none_is_here("b/cuda:0"), "");
  r.away("b/cuda:0", {errc::infrastructure, "b is silent"});
  EXPECT_TRUE(r.any_usable("b/cuda:0")) << "it may come back";
  EXPECT_FALSE(r.is_ready("b/cuda:0"));
  EXPECT_EQ(r.count_here("cuda:0,b/cuda:0"), 1u);
  EXPECT_THAT(r.why_none_is_here("b/cuda:0"), HasSubstr("b is silent"));
  r.add(node("b/cuda:0", "sm_90a", "H200"));
  EXPECT_EQ(r.count_here("b/cuda:0"), 1u) << "it is back";
}

TEST(device_roster, is_settled_once_every_device_has_started_or_cannot) {
  auto r = two_gpus_and_a_cpu();
  r.started("cpu", report_of("cpu"));
  r.failed("cuda:0", {errc::io_error, "first try"});
  r.give_up("cuda:1", {errc::not_found, "no driver"});
  EXPECT_FALSE(r.settled());
  r.started("cuda:0", report_of("cuda:0"));
  EXPECT_TRUE(r.settled());
  EXPECT_EQ(r.at("cuda:0").problem.message, "");
  EXPECT_EQ(r.at("cuda:0").report.where.device, "cuda:0");
  EXPECT_TRUE(r.any_ready());
  r.restarted("cuda:0");
  EXPECT_FALSE(r.settled());
  EXPECT_FALSE(r.is_ready("cuda:0"));
}

TEST(device_roster, if_none_works_the_first_ones_problem_is_reported) {
  auto r = two_gpus_and_a_cpu();
  for (const char* device : {"cuda:1", "cpu", "cuda:0"})
    r.give_up(device, {errc::refused, std::string("no ") + device});
  ASSERT_FALSE(r.any_ready());
  EXPECT_EQ(r.any_ready().error().code, errc::refused);
  EXPECT_EQ(r.any_ready().error().message, "no cuda:0");
}

TEST(device_holds, a_held_device_is_exclusive_until_it_is_released) {
  device_holds h;
  EXPECT_TRUE(h.check_free("cuda:0", 0));
  const auto number = h.hold("cuda:0", hold_use::measure);
  EXPECT_NE(number, 0u);
  EXPECT_TRUE(h.is_held("cuda:0"));
  EXPECT_FALSE(h.is_held("cuda:1"));
  EXPECT_EQ(h.check_free("cuda", 0).error().code, errc::refused) << "one of them is held";
  EXPECT_TRUE(h.check_free("cuda", number)) << "its own hold does not count";
  EXPECT_TRUE(h.check_free("cuda:1,cpu", 0));
  EXPECT_EQ(h.device_of(number), "cuda:0");
  EXPECT_EQ(h.release(number), "cuda:0");
  EXPECT_EQ(h.release(number), std::nullopt);
  EXPECT_EQ(h.device_of(number), std::nullopt);
  EXPECT_TRUE(h.check_free("cuda", 0));
  EXPECT_NE(h.hold("cuda:0", hold_use::measure), number) << "numbers are not reused";
}

TEST(device_holds, a_device_on_which_a_task_is_compared_is_held_but_free_for_experiments) {
  device_holds h;
  const auto number = h.hold("cuda:0", hold_use::compare);
  EXPECT_TRUE(h.is_held("cuda:0"));
  EXPECT_TRUE(h.is_held_for("cuda:0", hold_use::compare));
  EXPECT_FALSE(h.is_held_for("cuda:0", hold_use::measure));
  EXPECT_TRUE(h.check_free("cuda", 0));
  EXPECT_EQ(h.release(number), "cuda:0");
  EXPECT_FALSE(h.is_held("cuda:0"));
}

TEST(supervision, reports_each_death_once) {
  supervision s;
  s.watch(7, {supervision::role::device, "cuda:0"});
  s.watch(8, {supervision::role::experiment, "e1"});
  const auto dead = s.died(7);
  ASSERT_TRUE(dead);
  EXPECT_EQ(dead->what, supervision::role::device);
  EXPECT_EQ(dead->name, "cuda:0");
  EXPECT_FALSE(s.died(7));
  EXPECT_FALSE(s.died(9)) << "not watched";
  EXPECT_EQ(s.died(8)->name, "e1");
}

TEST(supervision, a_device_that_dies_repeatedly_is_not_restarted) {
  supervision s;
  EXPECT_TRUE(s.may_restart("cuda:0"));
  EXPECT_TRUE(s.may_restart("cuda:0"));
  EXPECT_TRUE(s.may_restart("cpu")) << "each device is counted separately";
  EXPECT_FALSE(s.may_restart("cuda:0"));
}

}  // namespace
}  // namespace cudal1
