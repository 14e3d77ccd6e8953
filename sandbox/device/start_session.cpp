// Which session a device gets.
#include "config/device_names.hpp"
#include "sandbox/cpu/session/cpu_session.hpp"
#include "sandbox/cuda/session/cuda_session.hpp"

namespace cudal1 {

expected<std::unique_ptr<device_session>> device_session::start(const session_options& options) {
  if (options.device == "cpu") return start_cpu_session(options);
  if (index_of_gpu(options.device) >= 0) return start_cuda_session(options);
  return fail(errc::invalid_argument, "there is no device \"{}\"; devices are cpu and cuda:0, cuda:1, ...",
              options.device);
}

}  // namespace cudal1
