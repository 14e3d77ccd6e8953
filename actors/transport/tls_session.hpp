// One connection's TLS over a non-blocking socket, of a transport or a client. No CAF: the command line links it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include <openssl/ssl.h>

#include "actors/transport/certificates.hpp"
#include "actors/transport/openssl_objects.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

using tls_context = std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>>;

// TLS 1.3, a certificate from both sides, no session that could be resumed. errc::infrastructure.
expected<tls_context> make_tls_context(const identity& own);

enum class tls_side { accepting, connecting };

class tls_session {
 public:
  enum class step { done, wants_read, wants_write, failed };

  // Does not own the socket. errc::infrastructure.
  static expected<tls_session> make(SSL_CTX* context, int fd, tls_side which);

  // Goes on with the handshake as far as the socket allows.
  step handshake();
  // `done` once a byte of the peer can be read.
  step wait_for_data();
  // Why the last step failed.
  const std::string& problem() const { return problem_; }
  certificate_ptr peer_certificate() const { return certificate_ptr(SSL_get1_peer_certificate(ssl_.get())); }
  // From now on every read and write fails.
  void break_off() { broken_ = true; }

  // From now on over another descriptor of the same socket.
  void move_to(int fd);

  // What was transferred, 0 if the socket would block; nothing once the connection is closed or broken.
  std::optional<std::size_t> read_some(void* to, std::size_t most);
  std::optional<std::size_t> write_some(const void* from, std::size_t most);
  // Whether that many bytes have been taken from the socket, which does not become readable for them again.
  bool has_buffered(std::size_t bytes = 1) const {
    return !broken_ && static_cast<std::size_t>(SSL_pending(ssl_.get())) >= bytes;
  }
  // Tells the peer that nothing follows, if the socket takes it.
  void say_goodbye();

 private:
  explicit tls_session(SSL* ssl) : ssl_(ssl) {}

  template <class Call>
  step take_step(Call call);
  template <class Call>
  std::optional<std::size_t> transfer(std::size_t most, Call call);

  std::unique_ptr<SSL, freed_by<SSL_free>> ssl_;
  bool broken_ = false;
  std::string problem_;
};

}  // namespace cudal1
