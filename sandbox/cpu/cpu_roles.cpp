#include "sandbox/cpu/cpu_roles.hpp"

#include "sandbox/cpu/referee/cpu_referee.hpp"
#include "sandbox/cpu/runner/cpu_runner.hpp"
#include "sandbox/interpreter/interpreter.hpp"

namespace cudal1 {

zygote_roles cpu_roles() {
  const auto runner = [](const worker_settings& settings, const int* descriptors, int zygote) {
    return run_cpu_runner(settings, descriptors[0], descriptors[1], descriptors[2], zygote);
  };
  return {.libraries = "LibTorch " CUDAL1_TORCH_VERSION,
          .warm_up = warm_up,
          .referee = run_cpu_referee,
          .runner = runner,
          .runner_descriptors = 3,
          .keeps_constants = true};
}

}  // namespace cudal1
