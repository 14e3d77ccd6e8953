// The list of GPUs with this machine's own driver, or without one.
#include <filesystem>

#include <gtest/gtest.h>

#include "sandbox/cuda/gpus/gpu.hpp"

namespace cudal1 {
namespace {

TEST(this_machine, has_gpus_only_with_a_driver) {
  const auto gpus = find_gpus();
  ASSERT_TRUE(gpus) << gpus.error().message;
  if (!std::filesystem::exists("/proc/driver/nvidia")) {
    EXPECT_TRUE(gpus->empty());
  }
  for (const auto& g : *gpus) {
    auto watch = gpu_watch::open(g.uuid);
    ASSERT_TRUE(watch) << watch.error().message;
    const auto c = watch->condition();
    ASSERT_TRUE(c) << c.error().message;
    EXPECT_GT(c->max_sm_clock_mhz, 0);
    EXPECT_GT(g.memory_bytes, 0);
    EXPECT_EQ(g.architecture().substr(0, 3), "sm_");
  }
}

}  // namespace
}  // namespace cudal1
