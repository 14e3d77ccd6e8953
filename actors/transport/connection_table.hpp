// The limits on a transport's connections. Internal to tls_transport.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "actors/transport/certificates.hpp"

namespace cudal1 {

// The sockets of a transport and when they have to be done with what they are doing. A socket whose time is up, or that
// has to go for another reason, is shut down, by which the I/O thread finds it broken and closes it. Thread-safe.
class connection_table {
 public:
  enum class stage {
    handshake,      // at most most_handshakes of them
    first_message,  // the peer is admitted, and has not yet sent a whole message
    open,           // without a limit
    closing         // what is unsent at a close
  };

  connection_table(std::size_t most_handshakes, std::chrono::seconds limit);
  ~connection_table() { stop(); }
  connection_table(const connection_table&) = delete;
  connection_table& operator=(const connection_table&) = delete;

  // Adds the socket, or moves it to another stage.
  void enter(int fd, stage to);
  void set_peer(int fd, const peer& who);
  // Before the socket is closed: its number can be another one's afterwards.
  void leave(int fd);

  // Shuts down the sockets whose peers are refused. Does not hold the lock while it asks.
  void close_if(const std::function<bool(const peer&)>& refused);
  // Shuts down all sockets, and those that come later.
  void stop();

 private:
  struct entry {
    uint64_t id = 0;
    stage now = stage::open;
    std::chrono::steady_clock::time_point deadline;
    std::optional<peer> who;
  };

  static void shut_down(int fd);
  void close_oldest_handshake();
  // The entry stays until the socket is closed, without counting or ending again.
  static void end(int fd, entry& e);
  void sweep();

  const std::size_t most_handshakes_;
  const std::chrono::seconds limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  uint64_t next_id_ = 1;
  std::map<int, entry> entries_;
  std::thread sweeper_;  // the last member: it uses the others
};

}  // namespace cudal1
