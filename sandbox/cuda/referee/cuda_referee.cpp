#include "sandbox/cuda/referee/cuda_referee.hpp"

#include <algorithm>

#include "sandbox/cuda/referee/gpu_backend.hpp"
#include "sandbox/cuda/runtime/device_memory.hpp"
#include "sandbox/referee/referee.hpp"

namespace cudal1 {
namespace {

constexpr int64_t share_of_memory = 3;  // the draws of all tasks may take 1/3 of the free memory
constexpr int64_t least_memory = int64_t{256} << 20;

expected<std::unique_ptr<referee>> start(const worker_settings& settings) {
  CUDAL1_TRY(auto device, make_gpu_device(settings.cuda_device, settings.memory_bytes));
  CUDAL1_TRY(const device_room room, device->room());
  return std::make_unique<referee>(std::make_unique<gpu_backend>(std::move(device)),
                                   std::max(room.free / share_of_memory, least_memory));
}

}  // namespace

int run_cuda_referee(const worker_settings& settings, int socket, int zygote) {
  return serve_referee(start(settings), settings, socket, zygote, {gpu_device_files(), spin_time});
}

}  // namespace cudal1
