#include "sandbox/cpu/referee/cpu_referee.hpp"

#include <algorithm>

#include "sandbox/cpu/referee/cpu_backend.hpp"
#include "sandbox/isolation/machine_info.hpp"
#include "sandbox/referee/referee.hpp"

namespace cudal1 {
namespace {

expected<std::unique_ptr<referee>> start(const worker_settings& settings) {
  CUDAL1_TRY(auto backend, cpu_backend::create(settings));
  const int64_t bound = std::clamp<int64_t>(memory_of_referee(settings) / 6, int64_t{256} << 20, int64_t{6} << 30);
  return std::make_unique<referee>(std::move(backend), bound);
}

}  // namespace

int run_cpu_referee(const worker_settings& settings, int socket, int zygote) {
  return serve_referee(start(settings), settings, socket, zygote, {});
}

}  // namespace cudal1
