#include "sandbox/device/device_names.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string problem_of(const auto& result) {
  return result ? "" : result.error().message;
}

// The names of the devices that `wanted` denotes on a machine with so many GPUs.
expected<std::vector<std::string>> chosen(std::string_view wanted, int gpus) {
  CUDAL1_TRY(const auto devices, choose_devices(wanted, [&](const device_type& type) {
               std::vector<found_device> found;
               if (!type.traits().numbered) found.push_back({"cpu", "cpu"});
               for (int i = 0; type.traits().numbered && i < gpus; ++i)
                 found.push_back({fmt::format("cuda:{}", i), "sm_90a"});
               return expected<std::vector<found_device>>(found);
             }));
  std::vector<std::string> names;
  for (const auto& d : devices)
    names.push_back(d.name);
  return names;
}

TEST(device_names, a_list_keeps_its_order_without_duplicates) {
  EXPECT_THAT(*read_device_list("cpu"), ElementsAre("cpu"));
  EXPECT_THAT(*read_device_list(" cuda:1 ,cuda:0,cuda:1"), ElementsAre("cuda:1", "cuda:0"));
  EXPECT_THAT(*read_device_list("cuda,cpu"), ElementsAre("cuda", "cpu"));
  EXPECT_THAT(*read_device_list("cuda:007"), ElementsAre("cuda:7"));
}

TEST(device_names, an_invalid_name_is_refused_with_the_legal_names) {
  for (const char* text : {"", "tpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "gpu", "cpu:0", "cpu,,cuda:0", "CUDA:0"})
    EXPECT_THAT(problem_of(read_device_list(text)), HasSubstr("devices are cpu, cuda:0")) << text;
}

TEST(device_names, auto_is_every_gpu_or_cpu_if_there_is_none) {
  EXPECT_THAT(*chosen("auto", 0), ElementsAre("cpu"));
  EXPECT_THAT(*chosen("auto", 2), ElementsAre("cuda:0", "cuda:1"));
  EXPECT_THAT(*chosen("cuda", 3), ElementsAre("cuda:0", "cuda:1", "cuda:2"));
  EXPECT_THAT(*chosen("cpu,cuda", 2), ElementsAre("cpu", "cuda:0", "cuda:1"));
  EXPECT_THAT(*chosen("cuda:1,cuda", 2), ElementsAre("cuda:1", "cuda:0"));
  EXPECT_THAT(*chosen("cpu", 4), ElementsAre("cpu"));
}

TEST(device_names, a_missing_gpu_is_refused_with_the_names_of_those_present) {
  EXPECT_THAT(problem_of(chosen("cuda:2", 2)), HasSubstr("the GPUs here are cuda:0 to cuda:1"));
  EXPECT_THAT(problem_of(chosen("cuda:0", 0)), HasSubstr("no GPU"));
  EXPECT_THAT(problem_of(chosen("cpu,cuda", 0)), HasSubstr("no GPU"));
}

TEST(device_names, a_list_includes_its_devices_and_cuda_every_gpu) {
  EXPECT_TRUE(names_device("cuda:0", "cuda:0"));
  EXPECT_FALSE(names_device("cuda:1", "cuda:10"));
  EXPECT_TRUE(names_device("cuda", "cuda:3"));
  EXPECT_FALSE(names_device("cuda", "cpu"));
  EXPECT_TRUE(names_device("cuda:0, cuda:2", "cuda:2"));
  EXPECT_FALSE(names_device("cuda:0,cuda:2", "cuda:1"));
  EXPECT_FALSE(names_device("", "cpu"));
  EXPECT_TRUE(names_device("cuda", "b/cuda:3")) << "of every machine";
  EXPECT_TRUE(names_device("b/cuda", "b/cuda:3"));
  EXPECT_FALSE(names_device("b/cuda", "c/cuda:3"));
  EXPECT_FALSE(names_device("b/cuda", "cuda:3"));
  EXPECT_FALSE(names_device("cuda:3", "b/cuda:3"));
  EXPECT_TRUE(names_device("cuda:3,b/cuda:3", "b/cuda:3"));
}

TEST(device_names, only_kinds_in_the_list_are_discovered) {
  const auto broken = [](const device_type& type) -> expected<std::vector<found_device>> {
    if (type.traits().kind == "cuda") return fail(errc::infrastructure, "the driver does not respond");
    return type.discover();
  };
  EXPECT_EQ(choose_devices("cpu", broken)->front().name, "cpu");
  EXPECT_THAT(problem_of(choose_devices("auto", broken)), HasSubstr("does not respond"));
  EXPECT_THAT(problem_of(choose_devices("cpu,cuda:0", broken)), HasSubstr("does not respond"));
}

TEST(device_names, a_search_runs_on_one_kind_of_device) {
  EXPECT_EQ(*kind_of_devices("b/cpu,cpu"), "cpu");
  EXPECT_THAT(problem_of(kind_of_devices("B_1/cpu")), HasSubstr("there is no device"));
  EXPECT_EQ(*kind_of_devices("cpu"), "cpu");
  EXPECT_EQ(*kind_of_devices("cuda:0,cuda"), "cuda");
  EXPECT_THAT(problem_of(kind_of_devices("cpu,cuda:0")),
              HasSubstr("two kinds: a search runs either on cpu or on GPUs"));
}

TEST(device_names, may_begin_with_a_machine) {
  EXPECT_EQ(machine_of("gpu-7/cuda:1"), "gpu-7");
  EXPECT_EQ(name_on_machine("gpu-7/cuda:1"), "cuda:1");
  EXPECT_EQ(machine_of("cuda:1"), "");
  EXPECT_EQ(device_on("", "cuda:1"), "cuda:1");
  EXPECT_EQ(device_on("b", "cpu"), "b/cpu");
  EXPECT_EQ(traits_of("b/cuda:1").kind, traits_of("cuda").kind);
}

}  // namespace
}  // namespace cudal1
