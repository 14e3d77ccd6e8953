// Passes bytes between a TLS connection and a local socket, so that what reads and writes lines over a Unix socket
// serves another machine without a change.
#pragma once

#include <memory>
#include <string>
#include <thread>

#include "actors/transport/tls_session.hpp"
#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// Ends when either side has ended and the other has what was sent before, or does not take it within ten seconds. Holds
// at most 128 KiB: who writes faster than the other side reads waits.
class tls_pump {
 public:
  // The two ends of a connection whose handshake has been made. `guard` is released before `remote` is closed.
  struct connection {
    unique_fd remote;
    tls_session session;  // over `remote`
    std::shared_ptr<void> guard;
  };
  struct started {
    unique_fd local;  // close it before the pump is destroyed
    std::unique_ptr<tls_pump> pump;
  };
  // errc::infrastructure.
  static expected<started> start(connection c);
  ~tls_pump();
  tls_pump(const tls_pump&) = delete;
  tls_pump& operator=(const tls_pump&) = delete;

 private:
  // Bytes on their way in one direction.
  struct flow {
    std::string bytes;
    std::size_t sent = 0;
    bool ended = false;  // nothing more comes
    bool is_empty() const { return sent == bytes.size(); }
    std::string_view rest() const { return std::string_view(bytes).substr(sent); }
  };

  tls_pump(connection c, unique_fd local) : remote_(std::move(c)), local_(std::move(local)) {}
  void run();
  // Each moves what it can without waiting; true if that was something.
  bool read_remote();
  bool read_local();
  bool write_remote();
  bool write_local();
  bool is_finished() const;
  void wait_until_ready(int timeout_ms);

  connection remote_;
  unique_fd local_;
  flow outward_, inward_;  // from the local socket, and to it
  std::thread thread_;
};

// Ends a connection whose other side has vanished within half a minute.
void watch_connection(int tcp_socket);

}  // namespace cudal1
