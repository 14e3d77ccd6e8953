#include "tests/actors/port_attacker.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <poll.h>
#include <sys/socket.h>

namespace cudal1 {

namespace {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using context_ptr = std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>>;
using ssl_ptr = std::unique_ptr<SSL, freed_by<SSL_free>>;
using bio_ptr = std::unique_ptr<BIO, freed_by<BIO_free>>;

sockaddr_in loopback(uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;  // closed by the other side, as it may be
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

void close_with_reset(unique_fd fd) {
  const linger hard{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
}

bio_ptr memory(const std::string& text) {
  return bio_ptr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

context_ptr context_of(const identity* own) {
  context_ptr context(SSL_CTX_new(TLS_client_method()));
  if (own == nullptr) return context;
  const std::unique_ptr<X509, freed_by<X509_free>> certificate(
      PEM_read_bio_X509(memory(own->certificate).get(), nullptr, nullptr, nullptr));
  const std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>> key(
      PEM_read_bio_PrivateKey(memory(own->key).get(), nullptr, nullptr, nullptr));
  EXPECT_EQ(SSL_CTX_use_certificate(context.get(), certificate.get()), 1);
  EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), key.get()), 1);
  return context;
}

// TLS that is not this project's.
class tls_client {
 public:
  tls_client(const identity* own, unique_fd fd) : context_(context_of(own)), fd_(std::move(fd)) {
    const timeval limit{5, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), fd_.get());
  }
  ~tls_client() { ERR_clear_error(); }
  bool connect(int most_version = TLS1_3_VERSION) {
    SSL_set_max_proto_version(ssl_.get(), most_version);
    return SSL_connect(ssl_.get()) == 1;
  }
  bool send(const std::string& bytes) {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }
  // Whether the server sends anything before it closes the connection.
  bool is_greeted() {
    char bytes[4096];
    return SSL_read(ssl_.get(), bytes, sizeof bytes) > 0;
  }
  unique_fd& fd() { return fd_; }

 private:
  context_ptr context_;
  unique_fd fd_;
  ssl_ptr ssl_;
};

// The first message of a handshake.
std::string client_hello() {
  const context_ptr context = context_of(nullptr);
  const ssl_ptr ssl(SSL_new(context.get()));
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  SSL_connect(ssl.get());
  ERR_clear_error();
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

// The header of CAF's protocol, version 3, of a client's greeting.
std::string greeting_header(uint32_t payload_bytes) {
  std::string header(32, '\0');
  header[0] = 1;
  const uint32_t swapped = htonl(payload_bytes);
  std::memcpy(header.data() + 4, &swapped, sizeof swapped);
  return header;
}

}  // namespace

unique_fd connect_to_port(uint16_t port) {
  unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto to = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) return {};
  return fd;
}

// ---- a relay ------------------------------------------------------------------------------------------------------

recording_relay::recording_relay(uint16_t to) : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  auto at = loopback(0);
  socklen_t bytes = sizeof at;
  if (::bind(listening_.get(), reinterpret_cast<const sockaddr*>(&at), bytes) != 0 ||
      ::listen(listening_.get(), 4) != 0 ||
      ::getsockname(listening_.get(), reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
    throw std::runtime_error("no port is free");
  port_ = ntohs(at.sin_port);
  thread_ = std::thread([this, to] { pass_on(to); });
}

recording_relay::~recording_relay() {
  ::shutdown(listening_.get(), SHUT_RDWR);
  if (thread_.joinable()) thread_.join();
}

std::string recording_relay::recorded() {
  thread_.join();
  return recorded_;
}

void recording_relay::pass_on(uint16_t to) {
  const unique_fd client(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return;
  const unique_fd target = connect_to_port(to);
  char buffer[65536];
  for (;;) {
    pollfd ends[2] = {{client.get(), POLLIN, 0}, {target.get(), POLLIN, 0}};
    ::poll(ends, 2, -1);
    for (const int from : {0, 1}) {
      if (ends[from].revents == 0) continue;
      const ssize_t n = ::recv(ends[from].fd, buffer, sizeof buffer, 0);
      if (n <= 0) return;
      if (from == 0) recorded_.append(buffer, static_cast<std::size_t>(n));
      send_all(ends[1 - from].fd, {buffer, static_cast<std::size_t>(n)});
    }
  }
}

// ---- attacks ------------------------------------------------------------------------------------------------------

port_attacker::port_attacker(uint16_t port, identities known, std::string session, uint64_t seed)
    : port_(port), known_(std::move(known)), session_(std::move(session)), hello_(client_hello()), random_(seed) {}

void port_attacker::attack() {
  const auto make = [this](const char* name, const std::function<void()>& attack) {
    attack();
    ++made_[name];
  };
  make("garbage", [this] { garbage(); });
  make("truncated or changed hello", [this] { changed_hello(); });
  make("idle connection", [this] { idle(); });
  make("replayed session", [this] { replay(); });
  make("no certificate", [this] { refused_peer(nullptr); });
  make("foreign certificate", [this] { refused_peer(&known_.foreign); });
  make("expired certificate", [this] { refused_peer(&known_.expired); });
  make("certificate of a client", [this] { refused_peer(&known_.wrong_role); });
  make("TLS 1.2", [this] { old_version(); });
  make("announcement of 4 GiB", [this] { admitted_peer(greeting_header(0xffffffff), false); });
  make("death in mid message", [this] { admitted_peer(greeting_header(32 << 20) + random_bytes(100'000), true); });
  make("greeting of garbage", [this] { admitted_peer(greeting_header(100) + random_bytes(100), false); });
}

unique_fd port_attacker::connection() {
  unique_fd fd = connect_to_port(port_);
  EXPECT_TRUE(fd) << std::strerror(errno);
  return fd;
}

std::string port_attacker::random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (char& b : bytes)
    b = static_cast<char>(random_());
  return bytes;
}

void port_attacker::garbage() {
  unique_fd fd = connection();
  send_all(fd.get(), random_bytes(random_() % 2000));
  if (random_() % 2 == 0) close_with_reset(std::move(fd));
}

void port_attacker::changed_hello() {
  std::string sent = hello_;
  if (random_() % 2 == 0) {
    sent.resize(random_() % sent.size());
  } else {
    for (uint64_t changes = 0; changes < 1 + random_() % 5; ++changes)
      sent[random_() % sent.size()] = static_cast<char>(random_());
  }
  unique_fd fd = connection();
  send_all(fd.get(), sent);
  // Some wait for the answer, and none reads it.
  pollfd waiting{fd.get(), POLLIN, 0};
  if (random_() % 4 == 0) ::poll(&waiting, 1, 20);
}

void port_attacker::idle() {
  idle_.push_back(connection());
  if (random_() % 2 == 0) send_all(idle_.back().get(), std::string_view(hello_).substr(0, 50));
  if (idle_.size() > 100) idle_.erase(idle_.begin(), idle_.begin() + 50);
}

void port_attacker::replay() {
  const unique_fd fd = connection();
  send_all(fd.get(), session_);
}

void port_attacker::refused_peer(const identity* who) {
  tls_client peer(who, connection());
  peer.connect();  // which can succeed: the server checks the certificate afterwards
  EXPECT_FALSE(peer.is_greeted());
}

void port_attacker::old_version() {
  tls_client peer(&known_.valid, connection());
  EXPECT_FALSE(peer.connect(TLS1_2_VERSION));
}

// It is greeted, unless other attacks have closed its connection as the oldest of too many.
void port_attacker::admitted_peer(const std::string& sends, bool resets) {
  tls_client peer(&known_.valid, connection());
  if (peer.connect() && peer.is_greeted()) peer.send(sends);
  if (resets) close_with_reset(std::move(peer.fd()));
}

}  // namespace cudal1
