// Draws, expected outputs and comparison on a real GPU, in one process; skipped if there is none.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include "sandbox/cuda/referee/gpu_backend.hpp"
#include "sandbox/cuda/referee/gpu_expected_outputs.hpp"
#include "sandbox/referee/draw_pool.hpp"

namespace cudal1 {
namespace {

TEST(gpu_pool, draws_and_expected_outputs_of_every_built_in_task_can_be_made) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "this machine has no GPU";
  auto device = make_gpu_device(0);
  ASSERT_TRUE(device) << device.error().message;
  gpu_backend backend(std::move(*device));
  const auto folder = builtin_task_folder();
  ASSERT_TRUE(folder) << folder.error().message;
  const auto tasks = load_tasks(*folder, "cuda");
  ASSERT_TRUE(tasks) << tasks.error().message;
  for (const auto& t : *tasks) {
    SCOPED_TRACE(t.name);
    auto pool = draw_pool::open(t, {}, backend, int64_t{16} << 30);
    ASSERT_TRUE(pool) << pool.error().message;
    for (int i = 0; i < 3; ++i) {
      const auto d = (*pool)->get({draw_kind::declared, 0}, i);
      ASSERT_TRUE(d) << d.error().message;
      for (const auto& statistics : gpu_expected_outputs::of(**d).statistics)
        EXPECT_LT(statistics.error, 1e-2);
    }
    (*pool)->renew();
    const auto again = (*pool)->get({draw_kind::declared, 0}, 0);
    ASSERT_TRUE(again) << again.error().message;
  }
}

}  // namespace
}  // namespace cudal1
