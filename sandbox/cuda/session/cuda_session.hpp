// The session of a GPU.
#pragma once

#include "sandbox/device/session.hpp"

namespace cudal1 {

// As device_session::start, which calls it for "cuda:N".
expected<std::unique_ptr<device_session>> start_cuda_session(const session_options& options);

}  // namespace cudal1
