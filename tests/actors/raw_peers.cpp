#include "tests/actors/raw_peers.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <poll.h>
#include <sys/socket.h>

namespace cudal1 {

namespace {

constexpr int patience_ms = 10'000;

std::unique_ptr<BIO, decltype(&BIO_free)> memory(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
}

}  // namespace

unique_fd tcp_connection(uint16_t port) {
  unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0) << std::strerror(errno);
  return fd;
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

bool is_readable(int fd, int timeout_ms) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, timeout_ms) == 1;
}

std::optional<std::string> answer_until_closed(int fd) {
  std::string answer;
  char buffer[4096];
  while (is_readable(fd, patience_ms)) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n <= 0) return answer;
    answer.append(buffer, static_cast<std::size_t>(n));
  }
  return std::nullopt;
}

bool is_closed(int fd) {
  char byte = 0;
  const ssize_t n = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN);
}

std::string basp_header(uint8_t operation, uint32_t payload_bytes) {
  std::string header(32, '\0');
  header[0] = static_cast<char>(operation);
  const uint32_t swapped = htonl(payload_bytes);
  std::memcpy(header.data() + 4, &swapped, sizeof swapped);
  return header;
}

raw_tls::raw_tls(const identity* own, const SSL_METHOD* method) : context_(SSL_CTX_new(method), SSL_CTX_free) {
  if (own != nullptr) {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(
        PEM_read_bio_X509(memory(own->certificate).get(), nullptr, nullptr, nullptr), X509_free);
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(
        PEM_read_bio_PrivateKey(memory(own->key).get(), nullptr, nullptr, nullptr), EVP_PKEY_free);
    SSL_CTX_use_certificate(context_.get(), certificate.get());
    SSL_CTX_use_PrivateKey(context_.get(), key.get());
  }
  ssl_.reset(SSL_new(context_.get()));
}

bool raw_tls::connect(uint16_t port) {
  fd_ = tcp_connection(port);
  const timeval limit{5, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  SSL_set_fd(ssl_.get(), fd_.get());
  return SSL_connect(ssl_.get()) == 1;
}

bool raw_tls::accept(unique_fd from) {
  fd_ = std::move(from);
  SSL_set_fd(ssl_.get(), fd_.get());
  return SSL_accept(ssl_.get()) == 1;
}

bool raw_tls::send(const std::string& bytes) {
  return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
}

std::string raw_tls::receive() {
  std::string bytes(4096, '\0');
  const int n = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max(n, 0)));
  ERR_clear_error();
  return bytes;
}

std::string raw_tls::hello() {
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), out);
  SSL_connect(ssl_.get());
  ERR_clear_error();
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(out, &bytes);
  return std::string(bytes, static_cast<std::size_t>(size));
}

listening_socket::listening_socket() : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), bytes), 0);
  EXPECT_EQ(::listen(fd.get(), 16), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
  port = ntohs(at.sin_port);
}

relay::~relay() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

std::string relay::recorded() {
  thread_.join();
  return recorded_;
}

void relay::pass_on(uint16_t to) {
  const unique_fd client(::accept4(listening_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)), target = tcp_connection(to);
  char buffer[65536];
  while (!stop_) {
    pollfd ends[2] = {{stalled_ ? -1 : client.get(), POLLIN, 0}, {stalled_ ? -1 : target.get(), POLLIN, 0}};
    ::poll(ends, 2, 5);
    for (const int from : {0, 1}) {
      if (ends[from].revents == 0) continue;
      const ssize_t n = ::recv(ends[from].fd, buffer, sizeof buffer, 0);
      if (n <= 0) return;
      if (from == 0) recorded_.append(buffer, static_cast<std::size_t>(n));
      send_all(ends[1 - from].fd, {buffer, static_cast<std::size_t>(n)});
    }
  }
}

void tongue_tied_server::serve() {
  if (!raw_.accept(unique_fd(::accept4(listening_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)))) return;
  raw_.send(std::string(10, '\0'));
  answer_until_closed(raw_.fd().get());
}

std::mt19937_64 seeded() {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  return std::mt19937_64(seed);
}

std::string random_bytes(std::mt19937_64& random, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& b : bytes)
    b = static_cast<char>(random());
  return bytes;
}

}  // namespace cudal1
