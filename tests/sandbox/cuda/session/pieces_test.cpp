// A program of many kernels, compiled in pieces, in a session.
#include <fmt/format.h>

#include "tests/sandbox/cuda/session/gpu_session.hpp"
#include "tests/sandbox/large_source.hpp"

namespace cudal1 {
namespace {

class pieces : public gpu_session_test {
 protected:
  static constexpr int64_t elements = 4096;
  static constexpr int count = 24;

  // y = x + 1 + ... + 1 by one launch for each operator, of a kernel whose piece has other kernels too.
  static std::string program_of(int launches, const char* execution) {
    std::string steps, kernels = test::scale_kernels(count);
    for (int i = 0; i < launches; ++i) {
      steps +=
          fmt::format(R"({0}{{"alloc":"v{1}","dtype":"float32","shape":[{2}]}},{{"launch":"add_{1}","grid":[{3},1,1],)"
                      R"("block":[256,1,1],"args":[{{"in":"{4}"}},{{"out":"v{1}"}},{{"i32":{2}}}]}})",
                      i == 0 ? "" : ",", i, elements, elements / 256, i == 0 ? "x" : fmt::format("v{}", i - 1));
      kernels += fmt::format(
          "__global__ void add_{}(const float* x, float* y, int n) {{\n"
          "  const int j = blockIdx.x * blockDim.x + threadIdx.x;\n  if (j < n) y[j] = x[j] + table[0];\n}}\n",
          i);
    }
    return fmt::format(
        R"({{"format":1,"name":"chain","inputs":[{{"name":"x","dtype":"float32","shape":[{}]}}],{}"steps":[{}],)"
        R"("outputs":["v{}"]}})"
        "\n---\n{}",
        elements, execution, steps, launches - 1, kernels);
  }
};

TEST_F(pieces, a_variant_of_many_kernels_is_correct_and_timed) {
  timing_plan plan;
  plan.forks = 1;
  for (const char* execution : {"", R"("execution":{"graph":true},)"}) {
    const auto found = evaluate(chain_task(elements, 20), program_of(20, execution), plan);
    EXPECT_EQ(found.result, outcome::correct) << found.reason;
    std::printf("check and timing of a program of 44 kernels: %.0f ms\n", found.milliseconds);
  }
}

}  // namespace
}  // namespace cudal1
