// Peers that do not use the transport: sockets, TLS and CAF's protocol by hand, as an attacker would.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>

#include <openssl/ssl.h>

#include "actors/transport/certificates.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

unique_fd tcp_connection(uint16_t port);
// Stops without an error where the other side has closed the connection.
void send_all(int fd, std::string_view bytes);
void close_with_reset(unique_fd fd);
bool is_readable(int fd, int timeout_ms);
// What the other side sends until it closes the connection; nothing if it does not close it in time.
std::optional<std::string> answer_until_closed(int fd);
bool is_closed(int fd);

// The header of CAF's protocol, version 3.
std::string basp_header(uint8_t operation, uint32_t payload_bytes);
constexpr uint8_t client_handshake = 1;

// TLS that is not this project's.
class raw_tls {
 public:
  explicit raw_tls(const identity* own, const SSL_METHOD* method = TLS_client_method());

  bool connect(uint16_t port);
  bool accept(unique_fd from);
  void most_version(int version) { SSL_set_max_proto_version(ssl_.get(), version); }
  bool send(const std::string& bytes);
  // The next bytes; none at an error or the end.
  std::string receive();
  // The first message of a handshake, without a connection.
  std::string hello();
  unique_fd& fd() { return fd_; }

 private:
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  unique_fd fd_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

// An address and port that other programs would have to know.
struct listening_socket {
  listening_socket();

  unique_fd fd;
  uint16_t port = 0;
};

// Passes one connection on to a server, and keeps what the client sent.
class relay {
 public:
  explicit relay(uint16_t to) : thread_([this, to] { pass_on(to); }) {}
  ~relay();
  uint16_t port() const { return listening_.port; }
  // From now on nothing is passed on, as if a cable were cut.
  void stall() { stalled_ = true; }
  // Once the client has closed its connection.
  std::string recorded();

 private:
  void pass_on(uint16_t to);

  listening_socket listening_;
  std::atomic<bool> stop_{false}, stalled_{false};
  std::string recorded_;
  std::thread thread_;
};

// A coordinator's server that makes the handshake, greets with ten bytes, and says no more.
class tongue_tied_server {
 public:
  explicit tongue_tied_server(const identity& own) : raw_(&own, TLS_server_method()), thread_([this] { serve(); }) {}
  ~tongue_tied_server() { thread_.join(); }
  uint16_t port() const { return listening_.port; }

 private:
  void serve();

  listening_socket listening_;
  raw_tls raw_;
  std::thread thread_;
};

// Prints the seed, so that a failure can be repeated.
std::mt19937_64 seeded();
std::string random_bytes(std::mt19937_64& random, std::size_t count);

}  // namespace cudal1
