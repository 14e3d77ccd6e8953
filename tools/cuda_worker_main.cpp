// cudal1-cuda-worker: the zygote of a GPU, which forks its referee and runners. Started by a session, not by users.
#include <cstdio>
#include <cstring>

#include "config/base/describe.hpp"
#include "sandbox/cuda/referee/cuda_referee.hpp"
#include "sandbox/cuda/runner/cuda_runner.hpp"
#include "sandbox/cuda/runtime/own_gpu_operators.hpp"
#include "sandbox/interpreter/interpreter.hpp"
#include "sandbox/isolation/zygote.hpp"

int main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "zygote") != 0) {
    std::fputs("cudal1-cuda-worker is started by cudal1-node; it does nothing on its own.\n", stderr);
    return 2;
  }
  const auto settings = cudal1::from_text<cudal1::worker_settings>(argv[2]);
  if (!settings) {
    std::fprintf(stderr, "cudal1-cuda-worker: %s\n", settings.error().message.c_str());
    return 2;
  }
  cudal1::zygote_roles roles;
  roles.libraries = "LibTorch " CUDAL1_TORCH_VERSION ", cuDNN " + cudal1::cudnn_version();
  roles.warm_up = cudal1::warm_up;
  roles.referee = cudal1::run_cuda_referee;
  roles.runner = [](const cudal1::worker_settings& s, const int* descriptors, int zygote) {
    return cudal1::run_cuda_runner(s, descriptors[0], zygote);
  };
  roles.runner_descriptors = 1;
  return cudal1::run_zygote(*settings, roles);
}
