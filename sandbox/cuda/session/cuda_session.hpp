// The session of a GPU.
#pragma once

#include "sandbox/device/session.hpp"

namespace cudal1 {

inline constexpr const char* cuda_worker = "cudal1-cuda-worker";

// As device_type::start_session.
expected<std::unique_ptr<device_session>> start_cuda_session(const session_options& options);

}  // namespace cudal1
