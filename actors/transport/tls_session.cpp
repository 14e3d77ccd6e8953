#include "actors/transport/tls_session.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <sys/socket.h>

namespace cudal1 {

namespace {

constexpr long most_certificate_list_bytes = 16 << 10;
constexpr std::size_t most_bytes_a_call = 1 << 30;

// A BIO over a non-blocking socket that it does not own. Unlike OpenSSL's, it writes without raising SIGPIPE.
namespace socket_bio {

int descriptor_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio)));
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int read(BIO* bio, char* to, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(descriptor_of(bio), to, static_cast<std::size_t>(bytes), 0);
  if (n < 0 && would_block()) BIO_set_retry_read(bio);
  return static_cast<int>(n);
}

int write(BIO* bio, const char* from, int bytes) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(descriptor_of(bio), from, static_cast<std::size_t>(bytes), MSG_NOSIGNAL);
  if (n < 0 && would_block()) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

long control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP ? 1 : 0;
}

const BIO_METHOD* method() {
  static const BIO_METHOD* made = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without SIGPIPE");
    if (m != nullptr) {
      BIO_meth_set_read(m, read);
      BIO_meth_set_write(m, write);
      BIO_meth_set_ctrl(m, control);
    }
    return m;
  }();
  return made;
}

void use(BIO* bio, int fd) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer is all that a BIO keeps for its method
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
}

BIO* make(int fd) {
  BIO* made = method() != nullptr ? BIO_new(method()) : nullptr;
  if (made == nullptr) return nullptr;
  use(made, fd);
  BIO_set_init(made, 1);
  return made;
}

}  // namespace socket_bio

}  // namespace

expected<tls_context> make_tls_context(const identity& own) {
  ERR_clear_error();
  tls_context context(SSL_CTX_new(TLS_method()));
  if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) != 1) return openssl_failed("TLS 1.3");
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_max_cert_list(context.get(), most_certificate_list_bytes);
  // A write that is tried again may come from another place: CAF's buffer can move.
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  const certificate_ptr certificate(read_pem(PEM_read_bio_X509, own.certificate));
  const certificate_ptr authority(read_pem(PEM_read_bio_X509, own.authority));
  const key_ptr key(read_pem(PEM_read_bio_PrivateKey, own.key));
  if (!certificate || !authority || !key) return openssl_failed("reading this node's identity");
  const bool set = SSL_CTX_use_certificate(context.get(), certificate.get()) == 1 &&
                   SSL_CTX_use_PrivateKey(context.get(), key.get()) == 1 &&
                   SSL_CTX_check_private_key(context.get()) == 1 &&
                   X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get()) == 1;
  if (!set) return openssl_failed("using this node's identity");
  return context;
}

expected<tls_session> tls_session::make(SSL_CTX* context, int fd, tls_side which) {
  ERR_clear_error();
  tls_session made(SSL_new(context));
  BIO* bio = made.ssl_ ? socket_bio::make(fd) : nullptr;
  if (bio == nullptr) return openssl_failed("a connection");
  SSL_set_bio(made.ssl_.get(), bio, bio);  // takes it
  which == tls_side::accepting ? SSL_set_accept_state(made.ssl_.get()) : SSL_set_connect_state(made.ssl_.get());
  return made;
}

template <class Call>
tls_session::step tls_session::take_step(Call call) {
  ERR_clear_error();
  errno = 0;
  const int result = call();
  if (result == 1) return step::done;
  const int system_error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return step::wants_read;
    case SSL_ERROR_WANT_WRITE:
      return step::wants_write;
    case SSL_ERROR_SYSCALL:
      problem_ = system_error != 0 ? std::strerror(system_error) : "the peer closed the connection";
      break;
    case SSL_ERROR_ZERO_RETURN:
      problem_ = "the peer closed the connection";
      break;
    default:
      const long verified = SSL_get_verify_result(ssl_.get());
      problem_ = verified != X509_V_OK ? X509_verify_cert_error_string(verified) : take_openssl_error();
  }
  ERR_clear_error();
  broken_ = true;
  return step::failed;
}

template <class Call>
std::optional<std::size_t> tls_session::transfer(std::size_t most, Call call) {
  if (broken_) return std::nullopt;
  if (most == 0) return 0;
  ERR_clear_error();
  const int result = call(static_cast<int>(std::min(most, most_bytes_a_call)));
  if (result > 0) return static_cast<std::size_t>(result);
  const int reason = SSL_get_error(ssl_.get(), result);
  ERR_clear_error();
  if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) return 0;
  broken_ = true;
  return std::nullopt;
}

tls_session::step tls_session::handshake() {
  return take_step([this] { return SSL_do_handshake(ssl_.get()); });
}

tls_session::step tls_session::wait_for_data() {
  char byte = 0;
  return take_step([&] { return SSL_peek(ssl_.get(), &byte, 1); });
}

void tls_session::move_to(int fd) {
  socket_bio::use(SSL_get_rbio(ssl_.get()), fd);
}

std::optional<std::size_t> tls_session::read_some(void* to, std::size_t most) {
  return transfer(most, [&](int n) { return SSL_read(ssl_.get(), to, n); });
}

std::optional<std::size_t> tls_session::write_some(const void* from, std::size_t most) {
  return transfer(most, [&](int n) { return SSL_write(ssl_.get(), from, n); });
}

void tls_session::say_goodbye() {
  if (broken_) return;
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  broken_ = true;
}

}  // namespace cudal1
