// TCP sockets, non-blocking: resolving, listening and connecting. Internal to tls_transport.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// Errors: invalid_argument (no such address), io_error (it is in use, or not of this machine).
expected<unique_fd> listen_at(const std::string& address, uint16_t port);

// Tries all of the host's addresses, each in an equal share of the time left. Errors: invalid_argument (no such host),
// io_error, timeout, cancelled (`stopping` is readable).
expected<unique_fd> connect_to(const std::string& host, uint16_t port, int stopping,
                               std::chrono::steady_clock::time_point deadline);

// Waits until the socket is ready. errc::timeout at the deadline, errc::cancelled once `stopping` is readable.
expected<void> wait_until_ready(int fd, short events, int stopping, std::chrono::steady_clock::time_point deadline);

}  // namespace cudal1
