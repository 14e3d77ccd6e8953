// The list of GPUs and their watch, with the test's own library in place of the driver's.
#include <cstdlib>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/gpus/gpu.hpp"
#include "sandbox/cuda/gpus/near_cores.hpp"

namespace cudal1 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* second_uuid = "GPU-1a000000-1111-2222-3333-444444444444";

class machine : public testing::Test {
 protected:
  ~machine() override {
    for (const auto& name : set_)
      ::unsetenv(name.c_str());
  }
  void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
    set_.push_back(name);
  }
  static std::vector<std::string> uuids() {
    const auto gpus = find_gpus();
    std::vector<std::string> found;
    if (!gpus) return {gpus.error().message};
    for (const auto& g : *gpus) {
      EXPECT_EQ(g.index, static_cast<int>(found.size()));
      found.push_back(g.uuid.substr(0, 6));
    }
    return found;
  }
  static gpu_condition condition() {
    auto watch = gpu_watch::open(second_uuid);
    if (!watch) throw std::runtime_error(watch.error().message);
    auto c = watch->condition();
    if (!c) throw std::runtime_error(c.error().message);
    return *c;
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(machine, its_gpus_are_described) {
  set("FAKE_NVML_GPUS", "2");
  const auto gpus = find_gpus();
  ASSERT_TRUE(gpus) << gpus.error().message;
  ASSERT_EQ(gpus->size(), 2U);
  const auto& g = gpus->at(1);
  EXPECT_EQ(g.index, 1);
  EXPECT_EQ(g.name, "NVIDIA H200");
  EXPECT_EQ(g.uuid, second_uuid);
  EXPECT_EQ(g.driver, "580.65.06");
  EXPECT_EQ(g.pci_bus, "0000FFFF:01:00.0");
  EXPECT_EQ(g.memory_bytes, 150754820096);
  EXPECT_EQ(g.architecture(), "sm_90a");
  EXPECT_THAT(g.near_cores, IsEmpty()) << "no such device is on this machine's bus";
}

TEST_F(machine, an_architecture_has_its_own_instructions_from_9_0_on) {
  set("FAKE_NVML_GPUS", "1");
  set("FAKE_NVML_MAJOR", "8");
  EXPECT_EQ(find_gpus()->front().architecture(), "sm_80");
}

TEST_F(machine, with_the_library_but_no_driver_has_no_gpus) {
  for (const char* status : {"9", "12"}) {
    set("FAKE_NVML_INIT", status);
    EXPECT_THAT(uuids(), IsEmpty());
  }
}

TEST_F(machine, with_a_broken_driver_reports_it) {
  set("FAKE_NVML_INIT", "18");
  const auto gpus = find_gpus();
  ASSERT_FALSE(gpus);
  EXPECT_EQ(gpus.error().code, errc::infrastructure);
  EXPECT_THAT(gpus.error().message, testing::AllOf(HasSubstr("does not work: Driver/library version mismatch"),
                                                   HasSubstr("devices = \"cpu\"")));
}

TEST_F(machine, shows_what_cuda_visible_devices_shows) {
  set("FAKE_NVML_GPUS", "4");
  const std::map<std::string, std::vector<std::string>> shown = {
      {"", {}},     {"2", {"GPU-2a"}},     {"3, 1", {"GPU-3a", "GPU-1a"}},     {"1,7,2", {"GPU-1a"}},
      {"-1", {}},   {"NoDevFiles", {}},    {"GPU-1a,0", {"GPU-1a", "GPU-0a"}}, {second_uuid, {"GPU-1a"}},
      {"GPU-", {}}, {"2,2,1", {"GPU-2a"}},
  };
  for (const auto& [list, gpus] : shown) {
    set("CUDA_VISIBLE_DEVICES", list);
    EXPECT_EQ(uuids(), gpus) << '"' << list << '"';
  }
  set("CUDA_VISIBLE_DEVICES", "MIG-1234");
  EXPECT_EQ(find_gpus().error().code, errc::unsupported);
}

TEST_F(machine, a_gpus_condition_has_what_invalidates_a_timing) {
  set("FAKE_NVML_GPUS", "2");
  set("FAKE_NVML_REASONS", std::to_string(0x1 | 0x4 | 0x40));
  set("FAKE_NVML_PROCESSES", "3");
  set("FAKE_NVML_EVENTS", "3");
  const auto c = condition();
  EXPECT_EQ(c.sm_clock_mhz, 1845);
  EXPECT_EQ(c.max_sm_clock_mhz, 1980);
  EXPECT_TRUE(c.throttled);
  EXPECT_FALSE(c.at_power_cap) << "it is hot as well";
  EXPECT_EQ(c.throttle_reasons, "power cap, heat (hardware)");
  EXPECT_THAT(c.processes, ElementsAre(1000, 1001, 1002));
  EXPECT_EQ(c.uncorrected_ecc_errors, 3);
  EXPECT_EQ(c.xid_errors, 1);
  EXPECT_EQ(c.program_xid_errors, 2) << "page faults of a kernel are not faults of the GPU";
}

TEST_F(machine, an_idle_gpu_is_not_throttled_and_missing_counters_are_minus_one) {
  set("FAKE_NVML_GPUS", "2");
  set("FAKE_NVML_REASONS", "1");
  set("FAKE_NVML_ECC", "3");
  set("FAKE_NVML_REGISTER", "3");
  set("FAKE_NVML_PROCESSES", "500");
  const auto c = condition();
  EXPECT_FALSE(c.throttled);
  EXPECT_EQ(c.throttle_reasons, "");
  EXPECT_EQ(c.uncorrected_ecc_errors, -1);
  EXPECT_EQ(c.xid_errors, -1);
  EXPECT_EQ(c.processes.size(), 500U) << "more than the first buffer holds";
}

TEST_F(machine, a_gpu_whose_mig_mode_is_on_is_partitioned_until_it_is_off) {
  set("FAKE_NVML_GPUS", "2");
  auto watch = gpu_watch::open(second_uuid);
  ASSERT_TRUE(watch) << watch.error().message;
  const std::map<std::string, bool> modes = {{"0", false}, {"1", true}, {"3", false}};  // 3: not supported
  for (const auto& [mode, partitioned] : modes) {
    set("FAKE_NVML_MIG", mode);
    const auto c = watch->condition();
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_EQ(c->is_partitioned, partitioned) << mode;
  }
  EXPECT_THAT(describe_partitioning(1),
              testing::AllOf(HasSubstr("MIG mode is on"), HasSubstr("nvidia-smi -i 1 -mig 0")));
}

TEST(throttling, drops_samples_unless_a_power_cap_persists) {
  const auto throttled = [](int mhz, bool by_power, const std::string& reasons) {
    gpu_condition c;
    c.sm_clock_mhz = mhz;
    c.max_sm_clock_mhz = 1980;
    c.throttled = true;
    c.at_power_cap = by_power;
    c.throttle_reasons = reasons;
    return c;
  };
  const gpu_condition calm, capped = throttled(1500, true, "power cap"), hot = throttled(900, false, "heat (hardware)");
  EXPECT_EQ(judge_throttling(calm, calm, 1).dropped, "");
  EXPECT_EQ(judge_throttling(calm, calm, 0).noted, "");
  EXPECT_EQ(judge_throttling(calm, capped, 1).dropped, "the GPU was throttled (power cap, 1500 of 1980 MHz)");
  const auto last = judge_throttling(capped, capped, 0);
  EXPECT_EQ(last.dropped, "");
  EXPECT_EQ(last.noted,
            "the GPU was throttled all the time by the power that both sides' calls use (power cap, 1500 of 1980 MHz)");
  EXPECT_EQ(judge_throttling(hot, calm, 0).dropped, "the GPU was throttled (heat (hardware), 900 of 1980 MHz)");
  EXPECT_NE(judge_throttling(capped, hot, 0).dropped, "");
}

TEST(gpu_disturbance, names_new_errors_and_the_processes_of_others_that_came_later) {
  gpu_condition at_start;
  at_start.processes = {50};  // an idle notebook
  gpu_condition now = at_start;
  now.processes = {50, 7, 8};
  EXPECT_EQ(disturbance_since(at_start, now, {7, 8}).used, "");
  const int other = 1 << 30;  // there is no such process now
  now.processes.push_back(other);
  EXPECT_EQ(disturbance_since(at_start, now, {7, 8}).used, "used by process 1073741824");
  now.processes = {99, other};
  EXPECT_EQ(disturbance_since(at_start, now, {7, 8}).used, "") << "its ids are not those of this machine";
  EXPECT_EQ(disturbance_since(at_start, now, {7, 8}).broken, "");
  now.program_xid_errors = 3;
  EXPECT_EQ(disturbance_since(at_start, now, {7, 8}).broken, "") << "a variant's own";
  now.xid_errors = 1;
  EXPECT_EQ(disturbance_since(at_start, now, {7, 8}).broken, "the driver reported an error of the GPU (Xid)");
  now.uncorrected_ecc_errors = 1;
  EXPECT_EQ(disturbance_since(at_start, now, {7, 8}).broken, "its memory had an uncorrected error (ECC)");
}

TEST_F(machine, reports_its_utilisation) {
  set("FAKE_NVML_GPUS", "2");
  set("FAKE_NVML_UTILISATION", "63");
  const auto watch = gpu_watch::open(second_uuid);
  ASSERT_TRUE(watch) << watch.error().message;
  EXPECT_EQ(watch->utilisation(), 63);
}

TEST_F(machine, a_missing_gpu_cannot_be_watched) {
  set("FAKE_NVML_GPUS", "1");
  EXPECT_EQ(gpu_watch::open(second_uuid).error().code, errc::infrastructure);
  set("FAKE_NVML_INIT", "9");
  EXPECT_EQ(gpu_watch::open(second_uuid).error().code, errc::not_found);
}

TEST(core_lists, are_read_as_linux_writes_them) {
  EXPECT_THAT(read_core_list("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(read_core_list("5"), ElementsAre(5));
  EXPECT_THAT(read_core_list(""), IsEmpty());
  EXPECT_THAT(read_core_list("0-1,x"), ElementsAre(0, 1));
  EXPECT_THAT(read_core_list("3-99999999"), IsEmpty());
  for (const char* list : {"", "5", "0-3,8,10-11"})
    EXPECT_EQ(format_core_list(read_core_list(list)), list);
}

}  // namespace
}  // namespace cudal1
