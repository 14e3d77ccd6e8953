// One connection's TLS over a non-blocking socket. Internal to tls_transport.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <caf/io/network/native_socket.hpp>
#include <caf/io/network/rw_state.hpp>
#include <openssl/ssl.h>

#include "actors/certificates.hpp"
#include "actors/openssl_objects.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

using tls_context = std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>>;

// TLS 1.3, a certificate from both sides, no session that could be resumed. errc::infrastructure.
expected<tls_context> make_tls_context(const identity& own);

enum class tls_side { accepting, connecting };

// Also the policy by which caf::io::network::stream reads and writes.
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
  // Whether bytes have been taken from the socket that nobody has read.
  bool has_buffered() const { return SSL_pending(ssl_.get()) > 0; }
  // From now on every read and write fails.
  void break_off() { broken_ = true; }

  // ---- the policy of a stream; "success" without bytes means that the socket would block ----
  caf::io::network::rw_state read_some(std::size_t& bytes, caf::io::network::native_socket, void* to, std::size_t most);
  caf::io::network::rw_state write_some(std::size_t& bytes, caf::io::network::native_socket, const void* from,
                                        std::size_t most);
  // Bytes that OpenSSL has taken from the socket do not wake the I/O thread again.
  bool must_read_more(caf::io::network::native_socket, std::size_t threshold) const {
    return !broken_ && static_cast<std::size_t>(SSL_pending(ssl_.get())) >= threshold;
  }

 private:
  explicit tls_session(SSL* ssl) : ssl_(ssl) {}

  template <class Call>
  step take_step(Call call);
  template <class Call>
  caf::io::network::rw_state transfer(std::size_t& bytes, std::size_t most, Call call);

  std::unique_ptr<SSL, freed_by<SSL_free>> ssl_;
  bool broken_ = false;
  std::string problem_;
};

}  // namespace cudal1
