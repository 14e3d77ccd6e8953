// cudal1-worker: the zygote of a device, which forks its referee and runners, or the zygote of the GPUs' compilers.
// Started by a session or a compiler, not by users.
#include <cstdio>
#include <cstring>

#include "config/base/describe.hpp"
#include "sandbox/cpu/cpu_roles.hpp"
#include "sandbox/cuda/compiler/compile_zygote.hpp"

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "compile-cuda") == 0) return cudal1::run_compile_zygote(argv[2]);
  if (argc != 3 || std::strcmp(argv[1], "zygote") != 0) {
    std::fputs("cudal1-worker is started by cudal1-node; it does nothing on its own.\n", stderr);
    return 2;
  }
  const auto settings = cudal1::from_text<cudal1::worker_settings>(argv[2]);
  if (!settings) {
    std::fprintf(stderr, "cudal1-worker: %s\n", settings.error().message.c_str());
    return 2;
  }
  return cudal1::run_zygote(*settings, cudal1::cpu_roles());
}
