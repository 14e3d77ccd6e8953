// Which devices a node uses, and which cores they get.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/agent/cores.hpp"
#include "actors/agent/machine_devices.hpp"
#include "sandbox/device/device_names.hpp"
#include "tests/temporary_folder.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int> cores_from(int first, int last) {
  std::vector<int> cores;
  for (int c = first; c <= last; ++c)
    cores.push_back(c);
  return cores;
}

found_device gpu(int index, std::vector<int> near) {
  return {fmt::format("cuda:{}", index), "sm_90a", "NVIDIA H200", std::move(near)};
}

core_layout layout(std::vector<int> allowed, const std::string& wanted, const std::vector<found_device>& gpus,
                   const device_options& options = {}) {
  const auto devices = choose_devices(wanted, [&](const device_type& type) {
    return type.traits().numbered ? expected<std::vector<found_device>>(gpus) : type.discover();
  });
  if (!devices) throw std::runtime_error(devices.error().message);
  std::vector<node_device> used;
  for (const auto& d : *devices)
    used.push_back({d, ""});
  return lay_out_cores(std::move(allowed), core_requests_of(used, options));
}

TEST(devices, are_those_that_were_requested) {
  const auto found = devices_of_node("cpu");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().name, "cpu");
  EXPECT_EQ(found->front().architecture, "cpu");
  EXPECT_THAT(devices_of_node("tpu").error().message, HasSubstr("there is no device \"tpu\""));
}

TEST(devices, have_the_lowering_target_that_their_kind_registers) {
  EXPECT_EQ((*lowering_target_of("cpu"))->name(), traits_of("cpu").target);
  for (const char* gpus : {"cuda", "cuda:1", "cuda:0,cuda:1"})
    EXPECT_EQ((*lowering_target_of(gpus))->name(), traits_of("cuda").target) << gpus;
  EXPECT_THAT(lowering_target_of("tpu").error().message, HasSubstr("there is no device \"tpu\""));
  EXPECT_THAT(lowering_target_of("cpu,cuda:0").error().message, HasSubstr("devices of two kinds"));
}

TEST(cores, cpu_is_timed_on_the_last_ones_and_the_others_do_the_rest) {
  const auto l = layout(cores_from(0, 7), "cpu", {});
  EXPECT_THAT(l.timing_of("cpu"), ElementsAre(7));
  EXPECT_EQ(l.others, cores_from(0, 6));
  EXPECT_EQ(l.seen_by("cpu"), cores_from(0, 7));
  device_options o;
  o.threads = 2;
  EXPECT_THAT(layout(cores_from(0, 7), "cpu", {}, o).timing_of("cpu"), ElementsAre(6, 7));
  o.timing_core = 3;
  EXPECT_THAT(layout(cores_from(0, 7), "cpu", {}, o).timing_of("cpu"), ElementsAre(3));
}

TEST(cores, each_gpu_gets_four_near_it) {
  const std::vector<found_device> gpus = {gpu(0, cores_from(0, 15)), gpu(1, cores_from(16, 31))};
  const auto l = layout(cores_from(0, 31), "auto", gpus);
  EXPECT_THAT(l.timing_of("cuda:0"), ElementsAre(12, 13, 14, 15));
  EXPECT_THAT(l.timing_of("cuda:1"), ElementsAre(28, 29, 30, 31));
  EXPECT_EQ(l.others.size(), 24U);
  EXPECT_EQ(l.seen_by("cuda:0").size(), 28U) << "all but those of the other GPU";
  const auto with_cpu = layout(cores_from(0, 31), "cpu,cuda", gpus);
  EXPECT_THAT(with_cpu.timing_of("cpu"), ElementsAre(31));
  EXPECT_THAT(with_cpu.timing_of("cuda:1"), ElementsAre(27, 28, 29, 30));
}

// Two nodes of one machine, a node a GPU, with all cores near both.
TEST(cores, nodes_of_one_machine_do_not_time_on_the_same_ones) {
  const temporary_folder folder;
  const auto request = [](const char* device, int64_t count) {
    return std::vector<core_request>{{device, count, 1, cores_from(0, 31), -1}};
  };
  int answer[2];
  ASSERT_EQ(::pipe(answer), 0);
  const int other = ::fork();
  if (other == 0) {
    auto claims = machine_claims::open(folder.path());
    const auto l = lay_out_unclaimed_cores(cores_from(0, 31), request("cuda:0", 4), *claims);
    const bool right = l && l->timing_of("cuda:0") == std::vector<int>{28, 29, 30, 31};
    if (::write(answer[1], right ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;)
      ::pause();
  }
  char right = 'n';
  ASSERT_EQ(::read(answer[0], &right, 1), 1);
  EXPECT_EQ(right, 'y');
  auto claims = machine_claims::open(folder.path());
  ASSERT_TRUE(claims);
  const auto l = lay_out_unclaimed_cores(cores_from(0, 31), request("cuda:1", 4), *claims);
  ASSERT_TRUE(l);
  EXPECT_THAT(l->timing_of("cuda:1"), ElementsAre(24, 25, 26, 27));
  EXPECT_EQ(l->others, cores_from(0, 23)) << "compilers leave both nodes' cores alone";
  EXPECT_FALSE(lay_out_unclaimed_cores(cores_from(28, 31), request("cuda:2", 4), *claims)) << "too few are left";
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
}

TEST(cores, a_node_says_when_it_shares_its_timing_core_or_has_none) {
  const temporary_folder folder;
  int answer[2];
  ASSERT_EQ(::pipe(answer), 0);
  const core_request request{"cpu", 1, 1, {}, -1};
  const int other = ::fork();
  if (other == 0) {
    auto claims = machine_claims::open(folder.path());
    const auto l = lay_out_cores_of_node({0, 1}, {request}, *claims);
    const bool right = l.timing_of("cpu") == std::vector<int>{1} && l.remarks.empty();
    if (::write(answer[1], right ? "y" : "n", 1) != 1) ::_exit(1);
    for (;;)
      ::pause();
  }
  char right = 'n';
  ASSERT_EQ(::read(answer[0], &right, 1), 1);
  EXPECT_EQ(right, 'y') << "the first has a core of its own";
  auto claims = machine_claims::open(folder.path());
  ASSERT_TRUE(claims);
  const auto second = lay_out_cores_of_node({0, 1}, {request}, *claims);
  EXPECT_THAT(second.timing_of("cpu"), ElementsAre(1));
  EXPECT_THAT(second.remarks.at("cpu"), HasSubstr(fmt::format("core 1, on which cpu is timed, is another node's for "
                                                              "timing, too (another cudal1-node (process {}) uses it): "
                                                              "the two take turns",
                                                              other)));
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  const auto alone = lay_out_cores_of_node({0}, {request}, *claims);
  EXPECT_THAT(alone.timing_of("cpu"), IsEmpty());
  EXPECT_THAT(alone.remarks.at("cpu"), HasSubstr("1 core may be used, too few to keep any free for timing on cpu"));
}

TEST(cores, a_fixed_core_is_given_to_no_other_device) {
  device_options o;
  o.timing_core = 15;
  const auto l = layout(cores_from(0, 15), "cuda,cpu", {gpu(0, {})}, o);
  EXPECT_THAT(l.timing_of("cpu"), ElementsAre(15));
  EXPECT_THAT(l.timing_of("cuda:0"), ElementsAre(11, 12, 13, 14));
}

TEST(cores, half_of_them_are_left_for_other_work) {
  const std::vector<found_device> gpus = {gpu(0, cores_from(0, 3)), gpu(1, cores_from(4, 7))};
  const auto l = layout(cores_from(0, 7), "auto", gpus);
  EXPECT_THAT(l.timing_of("cuda:0"), ElementsAre(2, 3));
  EXPECT_THAT(l.timing_of("cuda:1"), ElementsAre(6, 7));
  EXPECT_EQ(layout(cores_from(0, 11), "auto", gpus).timing_of("cuda:1").size(), 3U);
  EXPECT_EQ(layout(cores_from(0, 3), "auto", {gpu(0, {})}).timing_of("cuda:0").size(), 2U);
}

TEST(cores, a_gpu_whose_near_cores_are_taken_or_not_allowed_gets_others) {
  const auto near = cores_from(0, 2);
  const auto l = layout({1, 2, 28, 29, 30, 31, 32, 33}, "auto", {gpu(0, near), gpu(1, near)});
  EXPECT_THAT(l.timing_of("cuda:0"), ElementsAre(1, 2));
  EXPECT_THAT(l.timing_of("cuda:1"), ElementsAre(32, 33));
  EXPECT_THAT(l.others, ElementsAre(28, 29, 30, 31));
}

TEST(cores, if_there_are_few_a_gpu_gets_one_or_none) {
  const std::vector<found_device> gpus = {gpu(0, {}), gpu(1, {})};
  const auto three = layout(cores_from(0, 2), "auto", gpus);
  EXPECT_EQ(three.timing_of("cuda:0").size(), 1U);
  EXPECT_EQ(three.timing_of("cuda:1").size(), 1U);
  EXPECT_THAT(three.others, ElementsAre(0));
  const auto two = layout(cores_from(0, 1), "auto", gpus);
  EXPECT_THAT(two.timing_of("cuda:0"), IsEmpty());
  EXPECT_EQ(two.others, cores_from(0, 1));
  const auto one = layout({5}, "cpu", {});
  EXPECT_THAT(one.timing_of("cpu"), IsEmpty());
  EXPECT_THAT(one.others, ElementsAre(5));
}

TEST(cores, none_are_kept_free_for_gpus_if_none_are_requested) {
  device_options o;
  o.cores_per_gpu = 0;
  const auto l = layout(cores_from(0, 3), "auto", {gpu(0, {})}, o);
  EXPECT_THAT(l.timing_of("cuda:0"), IsEmpty());
  EXPECT_EQ(l.others, cores_from(0, 3));
}

}  // namespace
}  // namespace cudal1
