#include "sandbox/verify/roofline.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace cudal1 {
namespace {

device_data h200() {
  const auto found = find_device_data("NVIDIA H200");
  if (!found || !*found) {
    ADD_FAILURE() << "there is no data for the H200";
    return {};
  }
  return **found;
}

TEST(roofline, memory_time_uses_the_reached_bandwidth) {
  task_work w;
  w.input_bytes = 400'000'000;
  w.output_bytes = 20'000'000;
  const auto r = roofline_of(w, h200());
  EXPECT_NEAR(r.memory_us, 100, 1e-9) << "420 MB at 4.2 TB/s";
  EXPECT_EQ(r.compute_us, 0);
  EXPECT_NEAR(r.device_us(), 100, 1e-9);
  EXPECT_NEAR(r.call_us(), 112, 1e-9);
  EXPECT_STREQ(r.limit(), "memory");
}

TEST(roofline, compute_time_uses_the_reached_rates) {
  task_work w;
  w.flops.float32 = 263e9;
  EXPECT_NEAR(roofline_of(w, h200()).device_us(), 263e3 / (790.0 / 3), 1e-6) << "scaled halves: 263 TFLOP/s";
  w.flops = {};
  w.flops.tf32 = 330e9;
  EXPECT_NEAR(roofline_of(w, h200()).device_us(), 1000, 1e-6) << "a convolution: 330 TFLOP/s";
  w.flops.half = 790e9;
  EXPECT_NEAR(roofline_of(w, h200()).device_us(), 2000, 1e-6) << "one after the other";
  EXPECT_STREQ(roofline_of(w, h200()).limit(), "compute");
  w.input_bytes = 16'800'000'000;
  EXPECT_NEAR(roofline_of(w, h200()).device_us(), 4000, 1e-6) << "the larger of both";
}

TEST(roofline, a_product_uses_the_fastest_of_float32_3xtf32_and_halves) {
  device_data d = h200();
  task_work w;
  d.reached_tflops.half = 0;  // not known
  w.flops.float32 = 110e9;
  EXPECT_NEAR(roofline_of(w, d).device_us(), 1000, 1e-6);
  d.reached_tflops.tf32 = 60;  // a third of it is below float32
  w.flops.float32 = 50e9;
  EXPECT_NEAR(roofline_of(w, d).device_us(), 1000, 1e-6);
}

TEST(roofline, share_of_log_gap_is_summed_over_tasks) {
  const auto closed = [](std::vector<gap_times> tasks) { return share_of_log_gap(tasks); };
  EXPECT_NEAR(*closed({{1000, 100, 10}}), 0.5, 1e-12);
  EXPECT_NEAR(*closed({{1000, 1000, 10}}), 0, 1e-12);
  EXPECT_NEAR(*closed({{1000, 10, 10}}), 1, 1e-12);
  // In log10: 2 of 4 and 0 of 1; the third has no gap, and the others lack a floor or a time.
  EXPECT_NEAR(*closed({{1e4, 100, 1}, {100, 100, 10}, {10, 5, 10}, {1000, 500, 0}, {0, 0, 10}}), 0.4, 1e-12);
  EXPECT_FALSE(closed({{1000, 500, 0}})) << "no floor is known";
  EXPECT_FALSE(closed({{10, 10, 10}})) << "there is no gap";
}

// Floors of the built-in tasks on an H200, against values computed by hand from their shapes.
TEST(roofline, floors_of_the_built_in_tasks_follow_from_their_sizes) {
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder);
  const auto tasks = load_tasks(*folder, "cuda");
  ASSERT_TRUE(tasks) << tasks.error().message;
  const device_data d = h200();
  int known = 0;
  for (const auto& t : *tasks) {
    const auto r = roofline_of(work_of(t), d);
    EXPECT_GT(r.device_us(), 2) << t.name;
    EXPECT_LT(r.device_us(), 10'000) << t.name;
    const auto size = [&](std::size_t input, std::size_t dimension) {
      return static_cast<double>(t.reference.text.inputs[input].type.shape[dimension]);
    };
    const auto close_to = [&](double us) {
      EXPECT_NEAR(r.device_us() / us, 1, 0.01) << t.name;
      ++known;
    };
    if (t.name == "softmax") close_to(2 * 4 * size(0, 0) * size(0, 1) / 4.2e6);
    if (t.name == "diagonal_matmul") close_to(4 * (size(0, 0) + 2 * size(1, 0) * size(1, 1)) / 4.2e6);
    if (t.name == "attention") close_to(2 * size(0, 0) * size(0, 1) * size(0, 1) * 2 * size(0, 2) / (790e6 / 3));
    if (t.name == "linear_row_sum") close_to(4 * (size(0, 0) * size(0, 1) + size(0, 0)) / 4.2e6);
    if (t.name == "linear_gelu")
      close_to(2 * size(0, 0) * size(0, 1) * static_cast<double>(t.reference.text.weights[0].type.shape[0]) /
               (790e6 / 3));
    if (t.name == "conv2d_epilogue")
      close_to(2 * size(0, 0) * size(0, 1) * static_cast<double>(t.reference.text.weights[0].type.shape[0]) *
               (size(0, 2) * 3 - 2) * (size(0, 3) * 3 - 2) / 330e6);
  }
  EXPECT_EQ(known, 6);
}

}  // namespace
}  // namespace cudal1
