// Waiting for the steps of a TLS connection, in a thread that may block.
#pragma once

#include <chrono>

#include <poll.h>

#include "actors/transport/tcp_sockets.hpp"
#include "actors/transport/tls_session.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

// Repeats a step of the session until it is done. errc::io_error, and the errors of wait_until_ready.
template <class Step>
expected<void> finish_step(const tls_session& session, Step step, int fd, int stopping,
                           std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const tls_session::step reached = step();
    if (reached == tls_session::step::done) return {};
    if (reached == tls_session::step::failed) return fail(errc::io_error, "{}", session.problem());
    const short events = reached == tls_session::step::wants_write ? POLLOUT : POLLIN;
    CUDAL1_CHECK(wait_until_ready(fd, events, stopping, deadline));
  }
}

}  // namespace cudal1
