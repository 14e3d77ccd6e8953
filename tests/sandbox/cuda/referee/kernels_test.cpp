// The kernels' text goes through the compiler of a GPU, where there is none.
#include "sandbox/cuda/referee/kernels.hpp"

#include <gtest/gtest.h>
#include <nvrtc.h>

namespace cudal1 {
namespace {

TEST(referee_kernels, compile_for_a_gpu) {
  nvrtcProgram program = nullptr;
  const std::string text(referee_kernel_text());
  ASSERT_EQ(nvrtcCreateProgram(&program, text.c_str(), "referee.cu", 0, nullptr, nullptr), NVRTC_SUCCESS);
  const char* options[] = {"--gpu-architecture=sm_90", "--std=c++17"};
  const auto status = nvrtcCompileProgram(program, 2, options);
  std::size_t bytes = 0;
  nvrtcGetProgramLogSize(program, &bytes);
  std::string log(bytes, '\0');
  nvrtcGetProgramLog(program, log.data());
  EXPECT_EQ(status, NVRTC_SUCCESS) << log;
  nvrtcDestroyProgram(&program);
}

}  // namespace
}  // namespace cudal1
