// What the writers of kernels for GPUs say of their work.
#include "policy/tile/kernel_work.hpp"

#include "policy/codegen/cuda/warp_access.hpp"
#include "tests/policy/moves/moves_under_test.hpp"
#include "tests/policy/pool_tasks.hpp"

namespace cudal1::test {
namespace {

kernel_body matrix(int64_t rows, int64_t columns, std::vector<int64_t> strides) {
  kernel_body body;
  body.axes = parallel_axes({rows, columns});
  body_access o;
  o.value = "x";
  o.type = contiguous(dtype::float32, {rows, columns});
  o.strides = std::move(strides);
  body.accesses.push_back(std::move(o));
  return body;
}

// Lanes take vectors of the matrix one after another.
lane_place place_of_elements(const kernel_body& body, int64_t width) {
  return [columns = body.extent(1), width](int64_t lane) {
    return std::vector<int64_t>{lane * width / columns, lane * width % columns};
  };
}

double sectors(const kernel_body& body, int64_t width) {
  return access_of_warp(body.accesses[0], width, place_of_elements(body, width)).sectors;
}

TEST(KernelWork, CountsTheSectorsThatAWarpTouches) {
  const auto rows = matrix(64, 64, {64, 1}), columns = matrix(64, 64, {1, 64}), row = matrix(64, 64, {0, 1});
  EXPECT_EQ(sectors(rows, 1), 4);      // 32 floats in a row
  EXPECT_EQ(sectors(rows, 4), 16);     // four times as many
  EXPECT_EQ(sectors(columns, 1), 32);  // each lane in another row
  EXPECT_EQ(sectors(matrix(64, 64, {0, 0}), 1), 1);
  EXPECT_EQ(sectors(row, 4), 8);  // two rows of the result read one row of the tensor: 64 floats
  auto shifted = rows;
  shifted.accesses[0].offset = 1;
  shifted.accesses[0].aligned = false;
  const auto apart = access_of_warp(shifted.accesses[0], 4, place_of_elements(shifted, 4));
  EXPECT_EQ(apart.instructions, 4);  // one for each element of a vector
  EXPECT_GT(apart.sectors, 4 * 16);
}

// At the task's sizes for a GPU.
kernel_work work_of(const std::string& name, const std::string& moves, std::size_t launch = 0) {
  const auto what = load_task(*builtin_task_folder() + "/" + name + ".json", "cuda");
  const auto made = lower(*what, parsed(moves), for_cuda());
  if (!made) throw std::runtime_error(made.error().message);
  return made->work.at(launch_of(made->checked.text, launch).kernel);
}

TEST(KernelWork, OfRowsHasALoopForEachPass) {
  const auto kept = work_of("softmax", "row_kernel(steps=0)");
  ASSERT_EQ(kept.loops.size(), 3U);  // the maximum, the sum, the results
  EXPECT_GT(kept.loops[0].reads, 0);
  EXPECT_EQ(kept.loops[1].reads, 0);  // the row is in registers
  EXPECT_EQ(kept.loops[2].reads, 0);
  EXPECT_GT(kept.loops[0].end_cycles, 0);
  EXPECT_EQ(kept.loops[2].end_cycles, 0);
  EXPECT_GT(kept.loops[2].written_sectors, 0);
  const auto read_again = work_of("softmax", "row_kernel(steps=0); row_threads(group=0, threads=32)");
  ASSERT_EQ(read_again.loops.size(), 2U);  // the maximum with the sum, the results
  EXPECT_FALSE(read_again.loops[0].again);
  EXPECT_GT(read_again.loops[0].serial_cycles, 0);
  EXPECT_GT(read_again.loops[1].reads, 0);
  EXPECT_TRUE(read_again.loops[1].again);
  EXPECT_GT(read_again.loops[0].rounds, kept.loops[0].rounds);
  EXPECT_LT(read_again.registers, kept.registers);
}

TEST(KernelWork, OfARunningSumWaitsInEachRound) {
  const auto sum = work_of("cumulative_sum", "row_kernel(steps=0)");
  ASSERT_FALSE(sum.loops.empty());
  EXPECT_GT(sum.loops[0].serial_cycles, 0);
}

TEST(KernelWork, OfElementsGrowsWithTheirNumber) {
  const auto four = work_of("gelu_by_hand", "fuse(steps=0..7); items(group=0, elements=4)");
  const auto sixteen = work_of("gelu_by_hand", "fuse(steps=0..7); items(group=0, elements=16)");
  ASSERT_EQ(four.loops.size(), 1U);
  EXPECT_EQ(sixteen.loops[0].read_sectors, 4 * four.loops[0].read_sectors);
  EXPECT_EQ(sixteen.loops[0].operations, 4 * four.loops[0].operations);
  EXPECT_GT(sixteen.registers, four.registers);
}

// Costs of recomputing a value hold those of what it is made of; operations must not.
TEST(KernelWork, CountsEachOperationOnce) {
  const auto work = work_of("gelu_by_hand", "fuse(steps=0..7); items(group=0, elements=1)");
  EXPECT_LT(work.loops[0].operations, 40);
}

TEST(KernelWork, OfAProductIsThatOfItsTiling) {
  const auto work = work_of("matmul_epilogue", "product_kernel(steps=0)");
  EXPECT_TRUE(work.loops.empty());
  EXPECT_GE(work.product.stages, 1);
  EXPECT_GT(work.product.cycles(2), work.product.cycles(1));
}

TEST(KernelWork, OfAPoolCountsWhatThreadsShareOnce) {
  const auto apart = work_of("pool_sigmoid", "row_kernel(steps=0..3)").loops.at(0);
  EXPECT_EQ(apart.reads, 4);          // of two tensors, two rows of a window, as a vector each
  EXPECT_EQ(apart.read_sectors, 32);  // 64 floats of each row
  EXPECT_EQ(apart.written_sectors, 4);
  constexpr pool_text overlapping{"a", "16, 64, 64, 64",
                                  R"(y = max_pool2d {"self": "x", "kernel_size": 3, "stride": 1, "padding": 1})"};
  const auto made = lower(pool_task(overlapping), parsed(overlapping.schedule), for_cuda());
  ASSERT_TRUE(made);
  const auto shared = made->work.begin()->second.loops.at(0);
  EXPECT_EQ(shared.reads, 18);         // six rows of three, for four windows
  EXPECT_LE(shared.read_sectors, 36);  // six rows of 34 floats
}

TEST(KernelWork, IsOnlyKnownForGpus) {
  const auto made = lower(builtin("softmax"), parsed("row_kernel(steps=0)"), for_cpu());
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->work.empty());
}

}  // namespace
}  // namespace cudal1::test
