// A convolution for which cuDNN compiles kernels, in a session: in a confined runner, and longer than a call may take.
// Of float16, since eager does not use TF32 for such convolutions with the channels first.
#include <fmt/format.h>

#include "sandbox/program/operators/convolution_chain.hpp"
#include "tests/sandbox/cuda/session/gpu_session.hpp"

namespace cudal1 {
namespace {

constexpr const char* k_tensors = R"("inputs":[{"name":"x","dtype":"float16","shape":[8,32,24,24]}],
    "weights":[{"name":"w","dtype":"float16","shape":[32,32,3,3]},{"name":"b","dtype":"float16","shape":[32]}],)";

task convolution_task() {
  return read_task(fmt::format(R"({{"format":1,"name":"compiled",{}"steps":[
      {{"aten":"aten::conv2d","args":{{"input":"x","weight":"w","bias":"b","padding":1}},"out":["c"]}},
      {{"aten":"aten::hardswish","args":{{"self":"c"}},"out":["y"]}}],"outputs":["y"]}})",
                               k_tensors),
                   "cuda")
      .value();
}

std::string graph_program(int engine, const char* execution) {
  return fmt::format(R"({{"format":1,"name":"compiled",{}{}
    "setup":[{{"aten":"aten::contiguous","args":{{"self":"w","memory_format":"channels_last"}},"out":["v"]}}],"steps":[
      {{"aten":"aten::contiguous","args":{{"self":"x","memory_format":"channels_last"}},"out":["i"]}},
      {{"aten":"cudal1::convolution_graph","args":{{"input":"i","weight":"v","operands":["b"],"stride":[1,1],
        "padding":[1,1],"dilation":[1,1],"transposed":false,"output_padding":[0,0],"groups":1,
        "graph":"add(0) hardswish","engine":{}}},"out":["r"]}},
      {{"aten":"aten::contiguous","args":{{"self":"r"}},"out":["y"]}}],"outputs":["y"]}})",
                     k_tensors, execution, engine);
}

class compiled_graphs : public gpu_session_test {};

TEST_F(compiled_graphs, are_correct_and_timed) {
  timing_plan plan;
  plan.forks = 1;
  for (const char* execution : {"", R"("execution":{"graph":true},)"}) {
    const auto found = evaluate(convolution_task(), graph_program(0, execution), plan);
    EXPECT_EQ(found.result, outcome::correct) << found.reason;
    std::printf("check and timing of a convolution with a chain: %.0f ms\n", found.milliseconds);
  }
}

TEST_F(compiled_graphs, are_invalid_where_the_engine_is_missing) {
  const auto found = evaluate(convolution_task(), graph_program(63, ""), {});
  EXPECT_EQ(found.result, outcome::invalid);
  EXPECT_NE(found.reason.find(no_engine_words), std::string::npos) << found.reason;
}

}  // namespace
}  // namespace cudal1
