// What a runner overwrites before another program runs, that libraries do not mind it, and what it costs.
#include <chrono>

#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include "sandbox/cuda/runtime/cubin_library.hpp"
#include "tests/sandbox/cuda/runner/gpu_fixture.hpp"

namespace cudal1 {
namespace {

class wiping : public gpu_test {
 protected:
  static double milliseconds(const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < 11; ++i) {
      const auto start = std::chrono::steady_clock::now();
      work();
      EXPECT_TRUE(device().finish());
      times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
    return median(times);
  }
};

TEST_F(wiping, a_write_into_the_flush_buffer_is_found_by_the_next_flush) {
  ASSERT_TRUE(device().wipe(1, 0));
  ASSERT_TRUE(device().flush());
  ASSERT_TRUE(device().finish());
  EXPECT_EQ(device().flush_problem(), "");
  ASSERT_EQ(cudaMemset(device().own_memory().data() + 123'456'788, 1, 4), cudaSuccess);
  ASSERT_TRUE(device().flush());
  ASSERT_TRUE(device().finish());
  EXPECT_NE(device().flush_problem(), "");
  ASSERT_TRUE(device().wipe(2, 0));
  ASSERT_TRUE(device().flush());
  ASSERT_TRUE(device().finish());
  EXPECT_EQ(device().flush_problem(), "");
}

TEST_F(wiping, a_write_where_no_call_was_is_found_once_and_gone_after) {
  ASSERT_TRUE(device().wipe(1, 0));
  ASSERT_TRUE(device().arena().begin_call(1));
  EXPECT_EQ(device().untouched_problem().value(), "");
  const auto ranges = device().arena().untouched();
  ASSERT_EQ(ranges.size(), 1U);
  void* const block = device().arena().allocate(8);
  auto* const base = static_cast<std::byte*>(block) - device().arena().offset_of(block);
  std::byte* const far = base + 8 * (ranges[0].first + ranges[0].words / 2);
  ASSERT_EQ(cudaMemset(far, 1, 8), cudaSuccess);
  EXPECT_NE(device().untouched_problem().value(), "");
  device().arena().release(block);
  ASSERT_TRUE(device().wipe(2, 0));
  EXPECT_EQ(device().untouched_problem().value(), "");
}

TEST_F(wiping, what_no_call_may_write_has_the_same_fingerprint_until_it_is_written) {
  ASSERT_TRUE(device().arena().begin_call(1));
  constexpr int64_t bytes = 1'000'003;
  auto* const block = static_cast<std::byte*>(device().arena().allocate(bytes));
  ASSERT_EQ(cudaMemset(block, 3, bytes), cudaSuccess);
  const std::vector<tensor_view> tensors{{contiguous(dtype::uint8, {bytes}), block}};
  const auto before = device().fingerprint_of({tensors, 7});
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(*device().fingerprint_of({tensors, 7}), *before);
  ASSERT_EQ(cudaMemset(block + bytes - 1, 4, 1), cudaSuccess);
  EXPECT_NE(*device().fingerprint_of({tensors, 7}), *before);
  device().arena().release(block);
}

// A kernel could make up an address that no rule about its text sees.
TEST_F(wiping, what_kernels_declare_on_the_device_is_watched) {
  const auto library = load_cubin(
      cubin_of("__global__ void k(float* y, int n) {\n  y[n] = table[n & 63] + constants[n & 15] + kept[n & 7];\n}\n",
               "const float table[64] = {1, 2, 3};\n__constant__ float constants[16];\n"
               "static __device__ const int kept[8] = {1};\n"),
      0);
  ASSERT_TRUE(library) << library.error().message;
  const auto& variables = variables_of(**library);
  ASSERT_EQ(variables.size(), 3U);
  ASSERT_TRUE(device().arena().begin_call(1));
  const auto before = device().fingerprint_of({variables, 7});
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(*device().fingerprint_of({variables, 7}), *before);
  for (const auto& v : variables) {
    auto* const last = static_cast<std::byte*>(v.data) + v.type.bytes() - 1;
    std::byte kept{};
    ASSERT_EQ(cudaMemcpy(&kept, last, 1, cudaMemcpyDeviceToHost), cudaSuccess);
    ASSERT_EQ(cudaMemset(last, 77, 1), cudaSuccess);
    EXPECT_NE(*device().fingerprint_of({variables, 7}), *before);
    ASSERT_EQ(cudaMemcpy(last, &kept, 1, cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(*device().fingerprint_of({variables, 7}), *before);
  }
}

TEST_F(wiping, libraries_compute_the_same_after_it) {
  const c10::InferenceMode no_autograd;
  for (const auto type : {at::kFloat, at::kHalf}) {
    const auto on_host = at::randn({777, 777}).to(type);
    const auto product = [&](uint64_t seed) {
      EXPECT_TRUE(device().finish());
      EXPECT_TRUE(device().wipe(seed, 0));
      EXPECT_TRUE(device().arena().begin_call(seed));
      const auto a = on_host.to(at::Device(at::kCUDA, 0));
      return at::mm(a, a).cpu();
    };
    const auto first = product(1);
    for (uint64_t seed = 2; seed < 8; ++seed)
      EXPECT_TRUE(at::equal(product(seed), first));
  }
}

TEST_F(wiping, takes_about_a_millisecond) {
  const double all = milliseconds([] { EXPECT_TRUE(device().wipe(3, 0)); });
  const double eight = milliseconds([] { EXPECT_TRUE(device().wipe(3, 8 << 10)); });
  ASSERT_TRUE(device().arena().begin_call(1));
  const double untouched = milliseconds([] { EXPECT_TRUE(device().untouched_problem()); });
  constexpr int64_t bytes = int64_t{256} << 20;
  void* const block = device().arena().allocate(bytes);
  const std::vector<tensor_view> tensors{{contiguous(dtype::uint8, {bytes}), block}};
  const double constants = milliseconds([&] { EXPECT_TRUE(device().fingerprint_of({tensors, 1})); });
  device().arena().release(block);
  std::printf(
      "to wipe all: %.2f ms (frames of 8 KiB: %.2f); to look for far writes: %.2f ms; to hash 256 MiB of setup "
      "tensors: %.2f ms\n",
      all, eight, untouched, constants);
  std::printf("an evaluation of two forks has 3 wipes and 3 looks: %.2f ms\n", 3 * (all + untouched));
  EXPECT_LT(all, 5);
}

}  // namespace
}  // namespace cudal1
