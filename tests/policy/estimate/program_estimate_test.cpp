// Estimates of programs' times on a GPU: what must be slower is estimated to be slower.
#include "policy/estimate/program_estimate.hpp"

#include "policy/estimate/launch_estimate.hpp"
#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

const device_data& h100() {
  static const device_data found = **find_device_data("NVIDIA H100 80GB HBM3");
  return found;
}

// A built-in task at its sizes for a GPU.
task large(const std::string& name) {
  auto read = load_task(*builtin_task_folder() + "/" + name + ".json", "cuda");
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

program_estimate estimate(const task& t, const std::string& moves, const device_data& gpu = h100()) {
  const auto made = lower(t, parsed(moves), for_cuda());
  if (!made) throw std::runtime_error(made.error().message);
  return estimate_of(made->checked, made->work, gpu);
}
double device_us(const std::string& name, const std::string& moves) {
  return estimate(large(name), moves).device_us;
}

task of(const std::string& steps, const std::string& inputs, const std::string& output) {
  auto read = read_task(R"({"format":1,"name":"t","inputs":[)" + inputs + R"(],"steps":[)" + steps +
                            R"(],"outputs":[")" + output + R"("]})",
                        "cuda");
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

launch_step launch(int64_t blocks, int64_t threads, int64_t shared_bytes = 0) {
  launch_step l;
  l.grid = {blocks, 1, 1};
  l.block = {threads, 1, 1};
  l.shared_bytes = shared_bytes;
  return l;
}

TEST(ProgramEstimate, OccupancyIsLimitedByThreadsRegistersAndSharedMemory) {
  kernel_work work;
  work.registers = 32;
  EXPECT_EQ(resident_blocks(launch(1, 256), work), 8);
  EXPECT_EQ(resident_blocks(launch(1, 1024), work), 2);
  EXPECT_EQ(resident_blocks(launch(1, 32), work), 32);
  work.registers = 120;
  EXPECT_EQ(resident_blocks(launch(1, 256), work), 2);
  EXPECT_EQ(resident_blocks(launch(1, 1024), work), 1);  // the compiler keeps to the launch bounds
  work.registers = 32;
  EXPECT_EQ(resident_blocks(launch(1, 256, 100 << 10), work), 2);
}

TEST(ProgramEstimate, AWaveMoreTakesLongerAndAFewBlocksMoreDoNot) {
  kernel_work work;
  work.loops.push_back({.rounds = 64, .operations = 1000});
  const auto us = [&](int64_t blocks) { return launch_us(launch(blocks, 1024), work, {}, h100()); };
  EXPECT_DOUBLE_EQ(us(1), us(132));
  EXPECT_GT(us(133), us(132));
  EXPECT_DOUBLE_EQ(us(133), us(264));
  EXPECT_GT(us(265), 1.3 * us(264));
}

TEST(ProgramEstimate, ManySmallBlocksTakeTheirTimeToStart) {
  kernel_work work;
  work.loops.push_back({.reads = 1, .read_sectors = 4, .operations = 4});
  EXPECT_GT(launch_us(launch(1 << 20, 32), work, {}, h100()), 500);
}

TEST(ProgramEstimate, NothingIsFasterThanItsTraffic) {
  const task t = large("softmax");  // 256 MiB in, 256 MiB out
  const double floor = 2 * 16384.0 * 4096 * 4 / (h100().reached_gb_per_s * 1e3);
  for (const char* moves : {"", "row_kernel(steps=0)", "row_kernel(steps=0); graph()"}) {
    const auto made = estimate(t, moves);
    EXPECT_GT(made.device_us, floor) << moves;
    EXPECT_LT(made.device_us, 8 * floor) << moves;
    EXPECT_GE(made.call_us, made.device_us + h100().overhead_us) << moves;
  }
}

TEST(ProgramEstimate, OrdersImplementations) {
  EXPECT_LT(device_us("gelu_by_hand", "fuse(steps=0..7)"), 0.5 * device_us("gelu_by_hand", ""));
  EXPECT_LT(device_us("softmax", "row_kernel(steps=0)"),
            device_us("softmax", "row_kernel(steps=0); row_threads(group=0, threads=32)"));
  // 64 threads a block, of one element each: too many blocks.
  EXPECT_LT(device_us("gelu_by_hand", "fuse(steps=0..7)"),
            device_us("gelu_by_hand", "fuse(steps=0..7); block(group=0, threads=64); items(group=0, elements=1)"));
}

TEST(ProgramEstimate, AccessThatDoesNotCoalesceTakesLonger) {
  const auto us = [&](const char* strides) {
    const task t = of(R"({"aten":"aten::add.Tensor","args":{"self":"z","other":"x"},"out":["y"]})",
                      fmt::format(R"({{"name":"x","dtype":"float32","shape":[4096,4096],"strides":{}}},
                       {{"name":"z","dtype":"float32","shape":[4096,4096]}})",
                                  strides),
                      "y");
    return estimate(t, "fuse(steps=0)").device_us;
  };
  EXPECT_GT(us("[32768,8]"), 1.5 * us("[4096,1]"));
  EXPECT_LT(us("[1,4096]"), 1.2 * us("[4096,1]")) << "read through shared memory";
}

// With what follows it is one pass over the result, as a convolution with a ReLU is.
TEST(ProgramEstimate, AConvolutionWithAChainStoresOnce) {
  const char* last = "separate_bias(); channels_last(steps=1); set_up(step=2); ";
  const auto us = [&](const char* moves) { return device_us("conv2d_epilogue", std::string(last) + moves); };
  const double graph = us("convolution_graph(step=7, engine=1); fuse(steps=8)");
  EXPECT_LT(graph, 0.9 * us("fuse(steps=4..7); fuse(steps=8)"));
  EXPECT_DOUBLE_EQ(graph, us("convolution_graph(step=7, engine=0); fuse(steps=8)"));
}

TEST(ProgramEstimate, WhatALibraryDoesAroundAConvolutionTakesTime) {
  const double own = device_us("conv2d_epilogue", "fuse(steps=1..3)");
  const double separate = device_us("conv2d_epilogue", "separate_bias(); fuse(steps=2..5)");
  const double last = device_us(
      "conv2d_epilogue", "separate_bias(); channels_last(steps=1); set_up(step=2); fuse(steps=4..8); fuse(steps=1)");
  EXPECT_LT(separate, 0.95 * own);
  EXPECT_LT(last, 0.95 * separate);
}

// Figures are times that an H200 took.
TEST(ProgramEstimate, TheLibraryTakesLongerToPermuteThanToCopy) {
  const auto us = [](const char* strides) {
    const task t =
        of(R"({"aten":"aten::clone","args":{"self":"x","memory_format":"contiguous_format"},"out":["y"]})",
           fmt::format(R"({{"name":"x","dtype":"float32","shape":[16,64,256,256],"strides":{}}})", strides), "y");
    return estimate(t, "", **find_device_data("NVIDIA H200")).device_us;
  };
  const double copied = us("[4194304,65536,256,1]"), permuted = us("[4194304,1,16384,64]");
  EXPECT_GT(permuted, 1.8 * copied);
  EXPECT_LT(permuted, 3 * copied);
}

TEST(ProgramEstimate, OfALossThatIsManyKernelsCountsThem) {
  const task t =
      of(R"({"aten":"aten::triplet_margin_loss","args":{"anchor":"a","positive":"b","negative":"c"},"out":["y"]})",
         R"({"name":"a","dtype":"float32","shape":[128,4096]},{"name":"b","dtype":"float32","shape":[128,4096]},
         {"name":"c","dtype":"float32","shape":[128,4096]})",
         "y");
  EXPECT_NEAR(estimate(t, "graph()", **find_device_data("NVIDIA H200")).device_us, 35.2, 6);
}

TEST(ProgramEstimate, OfAConvolutionOfSingleChannelsIsItsOutputsAndTaps) {
  const auto us = [](const char* x, const char* weight) {
    const task t =
        of(R"({"aten":"aten::conv2d","args":{"input":"x","weight":"w","groups":3},"out":["y"]})",
           fmt::format(R"({{"name":"x","dtype":"float32","shape":{}}},{{"name":"w","dtype":"float32","shape":{}}})", x,
                       weight),
           "y");
    return estimate(t, "graph()", **find_device_data("NVIDIA H200")).device_us;
  };
  EXPECT_NEAR(us("[16,3,256,256]", "[3,1,3,1]"), 38.9, 6);
  EXPECT_NEAR(us("[16,3,128,256]", "[3,1,3,5]"), 30.1, 6);
}

TEST(ProgramEstimate, OfAPoolIsItsMemoryOrInTheLibraryItsWindows) {
  const auto us = [](const char* window, const char* moves, const device_data& gpu = h100()) {
    const task t = of(fmt::format(R"({{"aten":"aten::max_pool3d","args":{{"self":"x",{}}},"out":["y"]}})", window),
                      R"({"name":"x","dtype":"float32","shape":[16,32,64,64,64]})", "y");
    return estimate(t, moves, gpu).device_us;
  };
  const char *apart = R"("kernel_size":2)", *overlapping = R"("kernel_size":3,"stride":2,"padding":1,"dilation":3)";
  const double floor = 16 * 32 * 4 * (64.0 * 64 * 64 + 32.0 * 32 * 32) / (h100().reached_gb_per_s * 1e3);
  EXPECT_LT(us(apart, "row_kernel(steps=0)"), 1.5 * floor);
  EXPECT_LT(us(apart, ""), 2 * floor);
  EXPECT_NEAR(us(overlapping, "", **find_device_data("NVIDIA H200")), 463, 60);  // measured there
  EXPECT_LT(us(overlapping, "row_kernel(steps=0)"), us(overlapping, ""));
}

TEST(ProgramEstimate, AGraphSavesGapsAndTheHostsTime) {
  const std::string two = R"({"aten":"aten::relu","args":{"self":"x"},"out":["y"]},)"
                          R"({"aten":"aten::sigmoid","args":{"self":"y"},"out":["z"]})";
  const task t = of(two, R"({"name":"x","dtype":"float32","shape":[1000]})", "z");
  const auto plain = estimate(t, ""), graph = estimate(t, "graph()");
  EXPECT_LT(graph.device_us, plain.device_us);
  EXPECT_LT(graph.call_us, plain.call_us - 5);
  EXPECT_LT(estimate(t, "fuse(steps=0..1); graph()").device_us, graph.device_us);
}

TEST(ProgramEstimate, AViewCostsNothing) {
  const std::string input = R"({"name":"x","dtype":"float32","shape":[1000,1000]})";
  const task plain = of(R"({"aten":"aten::relu","args":{"self":"x"},"out":["y"]})", input, "y");
  const task viewed = of(R"({"aten":"aten::t","args":{"self":"x"},"out":["v"]},)"
                         R"({"aten":"aten::relu","args":{"self":"v"},"out":["y"]})",
                         input, "y");
  EXPECT_DOUBLE_EQ(estimate(viewed, "").device_us, estimate(plain, "").device_us);
}

TEST(ProgramEstimate, OfAProductIsItsArithmetic) {
  const auto us = [](int64_t n) {
    const std::string input = R"({{"name":"{0}","dtype":"float32","shape":[{1},{1}]}})";
    return estimate(of(R"({"aten":"aten::matmul","args":{"self":"a","other":"b"},"out":["y"]})",
                       fmt::format(fmt::runtime(input), "a", n) + "," + fmt::format(fmt::runtime(input), "b", n), "y"),
                    "")
        .device_us;
  };
  EXPECT_NEAR(us(4096), 2650, 400);  // measured on an H100
  EXPECT_NEAR(us(2048), 345, 60);
  EXPECT_GT(us(512), 10);
  EXPECT_LT(us(512), 25);
}

TEST(ProgramEstimate, OfAProgramWhoseKernelsAreNotKnownIsOfItsTraffic) {
  const auto made = lower(large("gelu_by_hand"), parsed("fuse(steps=0..7)"), for_cuda());
  ASSERT_TRUE(made);
  const double known = estimate_of(made->checked, made->work, h100()).device_us;
  const double unknown = estimate_of(made->checked, {}, h100()).device_us;
  EXPECT_NEAR(unknown / known, 1, 0.5);
}

TEST(ProgramEstimate, AFasterMemoryIsFaster) {
  const task t = large("softmax");
  const device_data h200 = **find_device_data("NVIDIA H200"), l4 = **find_device_data("NVIDIA L4");
  const char* moves = "row_kernel(steps=0)";
  EXPECT_LT(estimate(t, moves, h200).device_us, estimate(t, moves).device_us);
  EXPECT_GT(estimate(t, moves, l4).device_us, 4 * estimate(t, moves).device_us);
}

}  // namespace
}  // namespace cudal1::test
