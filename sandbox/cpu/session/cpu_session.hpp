// The session of the device `cpu`.
#pragma once

#include "sandbox/device/session.hpp"

namespace cudal1 {

// As device_type::start_session.
expected<std::unique_ptr<device_session>> start_cpu_session(const session_options& options);

}  // namespace cudal1
