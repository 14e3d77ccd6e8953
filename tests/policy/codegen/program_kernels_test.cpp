// Kernels that are equal but for the names of their values.
#include "policy/codegen/program_kernels.hpp"

#include "tests/policy/moves/moves_under_test.hpp"

namespace cudal1::test {
namespace {

// Layers of a product, a sum with a weight and two pointwise operators; the last one of another width.
task layers() {
  std::string inputs = R"({"name":"x","dtype":"float32","shape":[32,64]})", steps;
  std::string x = "x";
  for (int n = 0; n < 4; ++n) {
    const int width = n < 3 ? 64 : 48;
    inputs += fmt::format(R"(,{{"name":"w{0}","dtype":"float32","shape":[{1},64]}})", n, width);
    inputs += fmt::format(R"(,{{"name":"b{0}","dtype":"float32","shape":[{1}]}})", n, width);
    steps += fmt::format(R"({0}{{"aten":"aten::linear","args":{{"input":"{1}","weight":"w{2}"}},"out":["y{2}"]}},)"
                         R"({{"aten":"aten::add.Tensor","args":{{"self":"y{2}","other":"b{2}"}},"out":["s{2}"]}},)"
                         R"({{"aten":"aten::tanh","args":{{"self":"s{2}"}},"out":["h{2}"]}})",
                         n == 0 ? "" : ",", x, n);
    x = fmt::format("h{}", n);
  }
  auto read = read_task(
      fmt::format(R"({{"format":1,"name":"layers","inputs":[{}],"steps":[{}],"outputs":["h3"]}})", inputs, steps),
      "cuda");
  if (!read) throw std::runtime_error(read.error().message);
  return *read;
}

std::size_t kernels_in(const program& p) {
  std::size_t count = 0;
  for (auto at = p.source.find("__global__"); at != std::string::npos; at = p.source.find("__global__", at + 1))
    ++count;
  return count;
}

std::size_t launches_in(const program& p) {
  return static_cast<std::size_t>(
      std::ranges::count_if(p.steps, [](const cudal1::step& s) { return std::holds_alternative<launch_step>(s); }));
}

TEST(ProgramKernels, EqualLayersShareOne) {
  const task t = layers();
  const char* fused = "fuse(steps=1..2); fuse(steps=4..5); fuse(steps=7..8); fuse(steps=10..11)";
  for (const auto* target : {&for_cpu(), &for_cuda()}) {
    const auto made = lower(t, parsed(fused), *target);
    ASSERT_TRUE(made) << made.error().message;
    const program& p = made->checked.text;
    EXPECT_EQ(kernels_in(p), 2U) << p.source;
    for (const std::size_t same : {1, 2})
      EXPECT_EQ(launch_of(p, same).kernel, launch_of(p, 0).kernel);
    EXPECT_NE(launch_of(p, 3).kernel, launch_of(p, 0).kernel);
    // Each with its own tensors.
    for (std::size_t n = 0; n < 4; ++n) {
      std::vector<std::string> tensors;
      for (const auto& a : launch_of(p, n).args)
        tensors.push_back(a.tensor);
      EXPECT_THAT(tensors,
                  testing::UnorderedElementsAre(fmt::format("y{}", n), fmt::format("b{}", n), fmt::format("h{}", n)));
    }
  }
}

TEST(ProgramKernels, OthersOptionsOrAnOverwrittenOperandMakeAnother) {
  const task t = layers();
  const program p = lowered_for_cuda(t,
                                     "fuse(steps=1..2); fuse(steps=4..5); fuse(steps=7..8); in_place(group=0); "
                                     "items(group=1, elements=1)");
  EXPECT_EQ(kernels_in(p), 3U) << p.source;
}

// Of a few long rows each, so that two or three kernels compute the softmax: their values in between differ.
TEST(ProgramKernels, EqualRowsThatAreSplitHaveValuesOfTheirOwn) {
  const auto two = [](const char* shape, const char* op) {
    std::string steps;
    for (int n = 0; n < 2; ++n)
      steps += fmt::format(R"({0}{{"aten":"aten::mul.Tensor","args":{{"self":"{1}","other":"{1}"}},"out":["q{2}"]}},)"
                           R"({{"aten":"{3},"out":["h{2}"]}})",
                           n == 0 ? "" : ",", n == 0 ? "x" : "y", n, fmt::format(fmt::runtime(op), fmt::arg("n", n)));
    auto read =
        read_task(fmt::format(R"({{"format":1,"name":"two","inputs":[{{"name":"x","dtype":"float32","shape":{0}}},)"
                              R"({{"name":"y","dtype":"float32","shape":{0}}}],"steps":[{1}],)"
                              R"("outputs":["h0","h1"]}})",
                              shape, steps),
                  "cuda");
    if (!read) throw std::runtime_error(read.error().message);
    return *read;
  };
  const task rows = two("[2,65536]", R"(aten::softmax.int","args":{{"self":"q{n}","dim":1}})");
  const task row = two("[65536]", R"(aten::sum","args":{{"self":"q{n}"}})");
  for (const auto& [t, target, kernels] :
       {std::tuple{&rows, &for_cuda(), 3U}, std::tuple{&row, &for_cuda(), 2U}, std::tuple{&row, &for_cpu(), 2U}}) {
    const auto made = lower(*t, parsed("row_kernel(steps=0..1); row_kernel(steps=2..3)"), *target);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_GE(kernels_in(made->checked.text), kernels) << made->checked.text.source;
    EXPECT_EQ(launches_in(made->checked.text), 2 * kernels_in(made->checked.text));
  }
}

TEST(ProgramKernels, ProductsShareTheKernelsThatSplitThem) {
  const task t = layers();
  const program p = lowered_for_cuda(t, "precision(step=0, as=tf32x3); precision(step=3, as=tf32x3)");
  EXPECT_EQ(kernels_in(p), 2U) << "the parts of a tensor, of whichever size, and the sum: " << p.source;
}

}  // namespace
}  // namespace cudal1::test
