// Draws, answers and comparison on a real GPU, in one process; skipped where there is none.
#include "sandbox/cuda/referee/gpu_pool.hpp"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

namespace cudal1 {
namespace {

TEST(gpu_pool, draws_and_answers_of_every_built_in_task_can_be_made) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "this machine has no GPU";
  auto device = make_gpu_device(0);
  ASSERT_TRUE(device) << device.error().message;
  output_comparer comparer(**device);
  tensor_memory memory(**device);
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder) << folder.error().message;
  const auto tasks = load_tasks(*folder, "cuda");
  ASSERT_TRUE(tasks) << tasks.error().message;
  for (const auto& t : *tasks) {
    SCOPED_TRACE(t.name);
    auto pool = gpu_draw_pool::open(t, {}, memory, comparer, int64_t{16} << 30);
    ASSERT_TRUE(pool) << pool.error().message;
    for (int i = 0; i < 3; ++i) {
      const auto d = (*pool)->get({draw_kind::declared, 0}, i);
      ASSERT_TRUE(d) << d.error().message;
      for (const auto& figures : (*d)->answers.figures)
        EXPECT_LT(figures.error, 1e-2);
    }
    (*pool)->renew();
    const auto again = (*pool)->get({draw_kind::declared, 0}, 0);
    ASSERT_TRUE(again) << again.error().message;
  }
}

}  // namespace
}  // namespace cudal1
