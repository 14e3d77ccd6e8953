#include "sandbox/verify/roofline.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

device_data h200() {
  const auto found = find_device_data("NVIDIA H200");
  if (!found || !*found) {
    ADD_FAILURE() << "there is no data of the H200";
    return {};
  }
  return **found;
}

TEST(roofline, of_bytes_alone_is_their_time_at_the_bandwidth_that_is_reached) {
  task_work w;
  w.input_bytes = 400'000'000;
  w.output_bytes = 20'000'000;
  const auto r = roof_of(w, h200());
  EXPECT_NEAR(r.memory_us, 100, 1e-9) << "420 MB at 4.2 TB/s";
  EXPECT_EQ(r.compute_us, 0);
  EXPECT_NEAR(r.device_us(), 100, 1e-9);
  EXPECT_NEAR(r.call_us(), 112, 1e-9);
  EXPECT_STREQ(r.limit(), "memory");
}

TEST(roofline, of_arithmetic_is_the_headroom_s_rates) {
  task_work w;
  w.flops.float32 = 110e9;
  EXPECT_NEAR(roof_of(w, h200()).device_us(), 1000, 1e-6) << "3xTF32: 110 TFLOP/s";
  w.flops = {};
  w.flops.tf32 = 330e9;
  EXPECT_NEAR(roof_of(w, h200()).device_us(), 1000, 1e-6) << "a convolution: 330 TFLOP/s";
  w.flops.half = 790e9;
  EXPECT_NEAR(roof_of(w, h200()).device_us(), 2000, 1e-6) << "one after the other";
  EXPECT_STREQ(roof_of(w, h200()).limit(), "compute");
  w.input_bytes = 16'800'000'000;
  EXPECT_NEAR(roof_of(w, h200()).device_us(), 4000, 1e-6) << "the larger of both";
}

TEST(roofline, of_a_product_takes_the_faster_of_float32_and_three_of_tf32) {
  device_data d = h200();
  d.reached_tflops.tf32 = 60;  // a third of it is below float32
  task_work w;
  w.flops.float32 = 50e9;
  EXPECT_NEAR(roof_of(w, d).device_us(), 1000, 1e-6);
}

TEST(roofline, closes_the_log_gap_in_proportion) {
  EXPECT_NEAR(*share_of_log_gap(1000, 100, 10), 0.5, 1e-12);
  EXPECT_NEAR(*share_of_log_gap(1000, 1000, 10), 0, 1e-12);
  EXPECT_NEAR(*share_of_log_gap(1000, 10, 10), 1, 1e-12);
  EXPECT_FALSE(share_of_log_gap(1000, 500, 0)) << "no floor is known";
  EXPECT_FALSE(share_of_log_gap(10, 10, 10)) << "there is no gap";
}

// Floors of the built-in tasks on an H200, against figures worked out by hand from their sizes.
TEST(roofline, of_the_built_in_tasks_is_what_their_sizes_say) {
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder);
  const auto tasks = load_tasks(*folder, "cuda");
  ASSERT_TRUE(tasks) << tasks.error().message;
  const device_data d = h200();
  const std::map<std::string, double> by_hand = {
      {"softmax", 2 * 4.0 * 16384 * 4096 / 4.2e6},
      {"diagonal_matmul", 4.0 * (4096 + 2 * 4096 * 4096) / 4.2e6},
      {"linear_gelu", 2.0 * 8192 * 4096 * 4096 / 110e6},
      {"attention", 2.0 * 64 * 1024 * 1024 * 128 / 110e6},
      {"linear_row_sum", 4.0 * (8192 * 4096 + 8192) / 4.2e6},
      {"conv2d_epilogue", 2.0 * 64 * 64 * 32 * (128 * 3 - 2) * (128 * 3 - 2) / 330e6}};
  for (const auto& t : *tasks) {
    const auto r = roof_of(work_of(t), d);
    EXPECT_GT(r.device_us(), 5) << t.name;
    EXPECT_LT(r.device_us(), 10'000) << t.name;
    if (const auto known = by_hand.find(t.name); known != by_hand.end()) {
      EXPECT_NEAR(r.device_us() / known->second, 1, 0.01) << t.name;
    }
  }
}

}  // namespace
}  // namespace cudal1
