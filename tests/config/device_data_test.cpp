#include "config/device_data.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

namespace cudal1 {
namespace {

const std::string complete = R"(
name = "Test"
models = ["Some GPU *", "Other GPU"]
[memory]
peak_gb_per_s = 1000
cache_bytes = 1048576
[compute]
multiprocessors = 10
peak_tflops = {float64 = 1, float32 = 67, tf32 = 495, half = 990}
[call]
overhead_us = 12
least_us = 3
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(device_data, estimates_what_was_not_measured_by_the_shares_of_an_h200) {
  const auto d = read_device_data(complete, "test.toml");
  ASSERT_TRUE(d) << d.error().message;
  EXPECT_FALSE(d->measured);
  EXPECT_DOUBLE_EQ(d->reached_gb_per_s, 875);
  EXPECT_DOUBLE_EQ(d->reached_tflops.float32, 50);
  EXPECT_DOUBLE_EQ(d->reached_tflops.tf32, 330);
  EXPECT_DOUBLE_EQ(d->reached_tflops.half, 790);
  const auto measured = read_device_data(with(with(complete, "cache_bytes", "reached_gb_per_s = 900\ncache_bytes"),
                                              "[call]", "reached_tflops = {tf32 = 400}\n[call]"),
                                         "test.toml");
  ASSERT_TRUE(measured) << measured.error().message;
  EXPECT_TRUE(measured->measured);
  EXPECT_EQ(measured->reached_gb_per_s, 900);
  EXPECT_EQ(measured->reached_tflops.tf32, 400);
}

TEST(device_data, knows_its_models_by_pattern) {
  const auto d = read_device_data(complete, "test.toml");
  ASSERT_TRUE(d);
  EXPECT_TRUE(d->is_of("Some GPU 80GB"));
  EXPECT_TRUE(d->is_of("Other GPU"));
  EXPECT_FALSE(d->is_of("Other GPU 2")) << "a pattern without * is the whole name";
  EXPECT_FALSE(d->is_of("Some GPU"));
  EXPECT_FALSE(d->is_of(""));
}

TEST(device_data, says_what_is_wrong_and_where) {
  const auto says = [](const std::string& text, const std::string& what) {
    const auto d = read_device_data(text, "test.toml");
    ASSERT_FALSE(d) << what;
    EXPECT_NE(d.error().message.find("test.toml"), std::string::npos) << d.error().message;
    EXPECT_NE(d.error().message.find(what), std::string::npos) << d.error().message;
  };
  says(with(complete, "peak_gb_per_s = 1000", "peak_gb_per_s = 0"), "memory.peak_gb_per_s = 0 should be above 0");
  says(with(complete, "peak_gb_per_s = 1000\n", ""), "memory.peak_gb_per_s is missing");
  says(with(complete, "peak_gb_per_s = 1000", "peak_gb_per_s = \"fast\""), "should be a number");
  says(with(complete, "cache_bytes", "reached_gb_per_s = 1001\ncache_bytes"), "above the peak");
  says(with(complete, "[call]", "[call]\nspeed = 1"), "there is no key speed");
  says(with(complete, "half = 990", "double = 990"), "compute.peak_tflops.half is missing");
  says(with(complete, "[call]", "[calls]"), "call should be a table");
  says(with(complete, "\"Other GPU\"", "7"), "models");
  says(with(complete, "name =", "name"), "test.toml:2");
}

TEST(device_data, of_the_built_in_files_is_found_by_the_drivers_model_names) {
  for (const char* model :
       {"NVIDIA H200", "NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA A100-SXM4-40GB",
        "NVIDIA A100-SXM4-80GB", "NVIDIA A100-PCIE-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA L40S", "NVIDIA L4",
        "NVIDIA A10", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3090"}) {
    const auto found = find_device_data(model);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_TRUE(*found) << model;
    EXPECT_LE((*found)->reached_tflops.tf32, (*found)->peak_tflops.tf32) << model;
  }
  const auto h200 = find_device_data("NVIDIA H200");
  EXPECT_EQ((*h200)->reached_gb_per_s, 4200);
  EXPECT_TRUE((*h200)->measured);
  for (const char* model : {"AMD EPYC", "NVIDIA H200 MIG 1g.18gb", ""}) {
    const auto found = find_device_data(model);
    ASSERT_TRUE(found);
    EXPECT_FALSE(*found) << model;
  }
}

TEST(device_data, of_the_user_takes_precedence_over_the_built_in_files) {
  const auto folder = std::filesystem::temp_directory_path() / ("cudal1-devices-" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mine.toml") << with(complete, "Other GPU", "NVIDIA H200");
  ASSERT_EQ(setenv("CUDAL1_DEVICES", folder.c_str(), 1), 0);
  const auto mine = find_device_data("NVIDIA H200");
  const auto other = find_device_data("NVIDIA L4");
  std::ofstream(folder / "mine.toml") << "name = ";
  const auto broken = find_device_data("NVIDIA H200");
  std::filesystem::remove_all(folder);
  const auto gone = find_device_data("NVIDIA H200");
  unsetenv("CUDAL1_DEVICES");
  ASSERT_TRUE(mine) << mine.error().message;
  EXPECT_EQ((*mine)->name, "Test");
  ASSERT_TRUE(other && *other);
  EXPECT_FALSE(broken);
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("CUDAL1_DEVICES"), std::string::npos);
}

}  // namespace
}  // namespace cudal1
