#include "sandbox/cuda/session.hpp"

namespace cudal1 {

expected<std::unique_ptr<device_session>> start_cuda_session(const session_options& options) {
  return fail(errc::unsupported, "device \"{}\": this build runs programs on \"cpu\" only", options.device);
}

}  // namespace cudal1
