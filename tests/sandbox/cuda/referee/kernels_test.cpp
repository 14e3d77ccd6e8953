// The referee's and the runner's own kernels compile for a GPU, also on a machine without one.
#include <gtest/gtest.h>
#include <nvrtc.h>

#include "sandbox/cuda/referee/comparison_kernels.hpp"
#include "sandbox/cuda/runner/runner_kernels.hpp"
#include "sandbox/cuda/runtime/fingerprints.hpp"

namespace cudal1 {
namespace {

void expect_compiles(const std::string& text) {
  nvrtcProgram program = nullptr;
  ASSERT_EQ(nvrtcCreateProgram(&program, text.c_str(), "service.cu", 0, nullptr, nullptr), NVRTC_SUCCESS);
  const char* options[] = {"--gpu-architecture=sm_90", "--std=c++17"};
  const auto status = nvrtcCompileProgram(program, 2, options);
  std::size_t bytes = 0;
  nvrtcGetProgramLogSize(program, &bytes);
  std::string log(bytes, '\0');
  nvrtcGetProgramLog(program, log.data());
  EXPECT_EQ(status, NVRTC_SUCCESS) << log;
  nvrtcDestroyProgram(&program);
}

TEST(service_kernels, of_the_referee_compile_for_a_gpu) {
  expect_compiles(std::string(referee_kernel_text()));
}

TEST(service_kernels, of_the_runner_compile_for_a_gpu) {
  expect_compiles(std::string(runner_functions) + std::string(runner_kernels) + std::string(hash_kernel_text()));
}

}  // namespace
}  // namespace cudal1
