// A node with several devices, on a machine whose driver (a fake library) reports one GPU.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "tests/actors/node_fixture.hpp"

namespace cudal1 {
namespace {

using testing::HasSubstr;

class node_with_a_gpu : public node_test {
 protected:
  node_with_a_gpu() {
    ::setenv("LD_LIBRARY_PATH", CUDAL1_FAKE_NVML, 1);
    ::setenv("FAKE_NVML_GPUS", "1", 1);
  }
  ~node_with_a_gpu() override {
    ::unsetenv("LD_LIBRARY_PATH");
    ::unsetenv("FAKE_NVML_GPUS");
    std::filesystem::remove_all(programs_);
  }
  // A folder with the CPU's worker alone: the GPU's is missing.
  std::string lone_worker() {
    programs_ = folder_ + "-programs";
    std::filesystem::create_directory(programs_);
    std::filesystem::create_symlink(CUDAL1_WORKER, programs_ + "/cudal1-worker");
    return programs_ + "/cudal1-worker";
  }

  std::string programs_;
};

TEST_F(node_with_a_gpu, a_device_that_does_not_start_does_not_affect_the_others) {
  start_node({"--device", "cpu,cuda:0", "--worker", lone_worker()});
  const auto status = hello();
  ASSERT_EQ(status.devices.size(), 1U) << "cpu works";
  EXPECT_EQ(status.devices.front().where.device, "cpu");
  ASSERT_EQ(status.troubled.size(), 1U);
  EXPECT_EQ(status.troubled.front().device, "cuda:0");
  EXPECT_TRUE(status.troubled.front().given_up);
  EXPECT_THAT(status.troubled.front().problem, HasSubstr("cudal1-cuda-worker"));

  auto on_gpu = run_request({relu_chain_task()}, 1);
  on_gpu.device = "cuda:0";
  EXPECT_THAT(ask_once(on_gpu).error, HasSubstr("device cuda:0 cannot be used"));
  on_gpu.device = "cuda:7";
  EXPECT_THAT(ask_once(on_gpu).error, HasSubstr("no device cuda:7; there are cuda:0, cpu"));
  on_gpu.device = "cpu,cuda:0";
  EXPECT_THAT(ask_once(on_gpu).error, HasSubstr("two kinds"));

  auto client = connect();
  ASSERT_TRUE(client.send(run_request({relu_chain_task()}, 1)));
  const auto last = read_to_end(client);
  ASSERT_TRUE(last.progress) << last.error;
  EXPECT_EQ(last.progress->state, "finished");
  EXPECT_EQ(read_store()->get_experiment("e1")->device, "cpu") << "the first device that works";
}

TEST_F(node_with_a_gpu, a_gpu_whose_mig_mode_is_on_is_away_until_it_is_off) {
  const std::string worker = lone_worker(), mode = folder_ + "/mig";
  // It is not a GPU's worker: the session would start as far as there.
  std::filesystem::create_symlink(CUDAL1_WORKER, programs_ + "/cudal1-cuda-worker");
  std::ofstream(mode) << "on";
  ::setenv("FAKE_NVML_MIG_FILE", mode.c_str(), 1);
  start_node({"--device", "cpu,cuda:0", "--worker", worker});
  ::unsetenv("FAKE_NVML_MIG_FILE");
  const auto problem = [&] {
    const auto status = hello();
    return status.troubled.empty() ? device_trouble{} : status.troubled.front();
  };
  ASSERT_TRUE(wait_until([&] { return !problem().problem.empty(); }));
  EXPECT_THAT(problem().problem,
              testing::AllOf(HasSubstr("cuda:0: its MIG mode is on"), HasSubstr("nvidia-smi -i 0 -mig 0")));
  EXPECT_FALSE(problem().given_up);
  std::filesystem::remove(mode);
  EXPECT_TRUE(wait_until([&] { return problem().problem.find("MIG") == std::string::npos; })) << problem().problem;
}

TEST_F(node_with_a_gpu, a_node_without_a_working_device_ends_and_reports_why) {
  spawn({"--device", "cuda:0", "--worker", lone_worker(), "--allow-weak-confinement"});
  EXPECT_EQ(wait_node(), 1);
  EXPECT_THAT(log(), HasSubstr("cudal1-cuda-worker"));
  spawn({"--device", "cuda:1"});
  EXPECT_EQ(wait_node(), 2) << "an invalid flag";
  EXPECT_THAT(log(), HasSubstr("there is no device \"cuda:1\": the only GPU here is cuda:0"));
  ::setenv("FAKE_NVML_INIT", "18", 1);
  spawn({});
  const int code = wait_node();
  ::unsetenv("FAKE_NVML_INIT");
  EXPECT_EQ(code, 1);
  EXPECT_THAT(log(), HasSubstr("there is a GPU driver, but it does not work"));
}

}  // namespace
}  // namespace cudal1
