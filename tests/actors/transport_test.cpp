// The cluster's port: certificates, connections over TLS, and what an attacker can do to an open port.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <random>
#include <thread>

#include <arpa/inet.h>
#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/caf_layer.hpp"
#include "actors/certificate_authority.hpp"
#include "actors/certificates.hpp"
#include "actors/tls_transport.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using blob = std::vector<uint8_t>;

constexpr duration answer_limit{5000};
constexpr std::chrono::seconds patience{10};

bool eventually(const std::function<bool()>& condition, steady_clock::duration limit = patience) {
  const auto end = steady_clock::now() + limit;
  while (!condition()) {
    if (steady_clock::now() > end) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

class temporary_folder {
 public:
  temporary_folder() : path_(testing::TempDir() + "cudal1-transport-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~temporary_folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

void write_text(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// An authority with a coordinator and whom it issues certificates to.
struct cluster {
  temporary_folder folder;
  std::string data = folder / "cluster";
  certificate_authority authority = *certificate_authority::create(data, "head");

  identity coordinator() const { return *read_identity(data + "/coordinator.pem"); }
  identity issue(const std::string& name, peer_role role = peer_role::agent) const {
    const std::string path = folder / (name + ".pem");
    write_text(path, *authority.issue(name, role));
    return *read_identity(path);
  }
};

// ---- certificates -------------------------------------------------------------------------------------------------

TEST(certificates, an_issued_identity_can_be_read_and_listed) {
  const cluster c;
  const identity gpu = c.issue("gpu-7");
  EXPECT_EQ(gpu.name, "gpu-7");
  EXPECT_EQ(gpu.role, peer_role::agent);
  EXPECT_EQ(c.coordinator().role, peer_role::coordinator);
  c.issue("laptop", peer_role::client);

  const auto listed = certificate_authority::open(c.data)->list();
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 3u);
  EXPECT_EQ((*listed)[0].name, "head");
  EXPECT_EQ((*listed)[1].name, "gpu-7");
  EXPECT_EQ((*listed)[2].role, peer_role::client);
  EXPECT_EQ((*listed)[1].serial.size(), 32u);
  EXPECT_NE((*listed)[1].serial, (*listed)[2].serial);
  const auto days =
      std::chrono::seconds((*listed)[1].expires_unix_s) - std::chrono::system_clock::now().time_since_epoch();
  EXPECT_NEAR(std::chrono::duration<double>(days).count() / 86400, 3 * 365, 2);
}

TEST(certificates, the_files_are_their_owners_only) {
  const cluster c;
  c.issue("gpu-7");
  EXPECT_EQ(fs::status(c.data).permissions(), fs::perms::owner_all);
  for (const auto& file : fs::directory_iterator(c.data))
    EXPECT_EQ(file.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << file.path();
}

TEST(certificates, a_folder_has_one_authority) {
  const cluster c;
  EXPECT_EQ(certificate_authority::create(c.data, "other").error().code, errc::already_exists);
  EXPECT_EQ(certificate_authority::open(c.folder / "none").error().code, errc::not_found);
}

TEST(certificates, names_are_checked) {
  const cluster c;
  for (const std::string& name : {std::string(), std::string("GPU"), std::string("a b"), std::string("a/b"),
                                  std::string("a\nb"), std::string(64, 'a'), std::string("a\0b", 3)})
    EXPECT_EQ(c.authority.issue(name, peer_role::agent).error().code, errc::invalid_argument) << name;
  EXPECT_TRUE(c.authority.issue(std::string(63, 'a'), peer_role::agent));
  EXPECT_EQ(c.authority.issue("head-2", peer_role::coordinator).error().code, errc::invalid_argument);
}

TEST(certificates, a_name_has_one_certificate_until_it_is_revoked_or_expired) {
  const cluster c;
  const auto long_ago = std::chrono::system_clock::now() - std::chrono::hours(4 * 365 * 24);
  ASSERT_TRUE(c.authority.issue("gpu-7", peer_role::agent, long_ago));
  ASSERT_TRUE(c.authority.issue("gpu-7", peer_role::agent));
  EXPECT_EQ(c.authority.issue("gpu-7", peer_role::agent).error().code, errc::already_exists);
  EXPECT_EQ(c.authority.revoke("gpu-8").error().code, errc::not_found);
  ASSERT_TRUE(c.authority.revoke("gpu-7"));
  ASSERT_TRUE(c.authority.revoke("gpu-7")) << "again";
  ASSERT_TRUE(c.authority.issue("gpu-7", peer_role::agent));
  const auto listed = c.authority.list();
  ASSERT_EQ(listed->size(), 4u);
  EXPECT_TRUE((*listed)[1].revoked);
  EXPECT_TRUE((*listed)[2].revoked);
  EXPECT_FALSE((*listed)[3].revoked);
}

TEST(certificates, revocations_are_seen_without_a_restart) {
  const cluster c;
  c.issue("gpu-7");
  const std::string serial = c.authority.list()->at(1).serial;
  revocations revoked(c.data);
  EXPECT_FALSE(revoked.is_revoked(serial));
  ASSERT_TRUE(c.authority.revoke("gpu-7"));
  EXPECT_TRUE(revoked.is_revoked(serial));
  EXPECT_FALSE(revoked.is_revoked(c.authority.list()->at(0).serial));
}

TEST(certificates, an_unreadable_list_of_revocations_leaves_the_last_one_in_force) {
  const cluster c;
  c.issue("gpu-7");
  const std::string head = c.authority.list()->at(0).serial, gpu = c.authority.list()->at(1).serial;
  ASSERT_TRUE(c.authority.revoke("gpu-7"));
  revocations seen(c.data), never_seen(c.data);
  EXPECT_TRUE(seen.is_revoked(gpu));
  write_text(c.data + "/revoked", "no serial number\n");
  EXPECT_TRUE(seen.is_revoked(gpu));
  EXPECT_FALSE(seen.is_revoked(head));
  EXPECT_TRUE(never_seen.is_revoked(head)) << "without a list nobody is admitted";
  fs::remove(c.data + "/revoked");
  EXPECT_TRUE(seen.is_revoked(gpu));
  EXPECT_EQ(c.authority.issue("gpu-8", peer_role::agent).error().code, errc::not_found);
}

// What read_identity says of a text in a file of that mode.
error problem_with(const cluster& c, const std::string& text, mode_t mode = 0600) {
  const std::string path = c.folder / "tried.pem";
  write_text(path, text, mode);
  const auto read = read_identity(path);
  return read ? error{errc::infrastructure, "no problem"} : read.error();
}

TEST(certificates, an_identity_file_with_a_problem_is_refused_with_a_sentence) {
  const cluster c, other;
  const identity a = c.issue("a"), b = c.issue("b"), foreign = other.issue("a");
  EXPECT_EQ(problem_with(c, a.authority + a.certificate + a.key).message, "no problem") << "in any order";
  EXPECT_EQ(problem_with(c, a.key + b.certificate + a.authority).message,
            "the private key in " + c.folder / "tried.pem" + " is not the certificate's");
  EXPECT_EQ(problem_with(c, a.key + a.certificate + foreign.authority).message,
            "the certificate in " + c.folder / "tried.pem" + " is not signed by the authority in it");
  EXPECT_EQ(problem_with(c, a.key + a.certificate + a.authority, 0640).message,
            "others can read " + c.folder / "tried.pem" + ": chmod 600 " + c.folder / "tried.pem");
  EXPECT_EQ(problem_with(c, a.certificate + a.authority).message, c.folder / "tried.pem" + " has no private key");
  EXPECT_EQ(problem_with(c, a.key + a.authority).message, c.folder / "tried.pem" + " has no certificate");
  EXPECT_EQ(problem_with(c, a.key + a.certificate).message, c.folder / "tried.pem" + " has no authority's certificate");
  EXPECT_EQ(problem_with(c, a.key + a.certificate + b.certificate + a.authority).code, errc::parse_error);
  EXPECT_EQ(problem_with(c, "not PEM").code, errc::parse_error);
  EXPECT_EQ(problem_with(c, a.key.substr(0, 60) + a.certificate + a.authority).code, errc::parse_error);
  EXPECT_EQ(read_identity(c.folder / "none.pem").error().code, errc::not_found);
}

TEST(certificates, an_identity_is_read_only_while_it_is_valid) {
  const cluster c;
  const std::string path = c.folder / "old.pem";
  const auto now = std::chrono::system_clock::now();
  write_text(path, *c.authority.issue("old", peer_role::agent));
  EXPECT_TRUE(read_identity(path, now - std::chrono::hours(23)));
  const auto early = read_identity(path, now - std::chrono::hours(25));
  ASSERT_FALSE(early);
  EXPECT_NE(early.error().message.find("is not valid yet"), std::string::npos) << early.error().message;
  const auto late = read_identity(path, now + std::chrono::hours(24 * 366 * 3));
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message.find("has expired"), std::string::npos) << late.error().message;
}

// ---- nodes --------------------------------------------------------------------------------------------------------

using admission = std::function<expected<void>(const peer&)>;

expected<void> admit_coordinators(const peer& who) {
  if (who.role != peer_role::coordinator) return fail(errc::refused, "{} is not a coordinator", who.name);
  return {};
}

expected<void> admit_agents(const peer& who) {
  if (who.role != peer_role::agent) return fail(errc::refused, "{} is not an agent", who.name);
  return {};
}

struct heartbeats {
  caf::timespan interval{0}, timeout{0};
};

// An actor system with a transport.
struct node {
  explicit node(identity own, admission admit, const std::function<void(tls_transport::options&)>& change = {},
                heartbeats beats = {}) {
    config.load<caf::io::middleman>();
    config.set("middleman.heartbeat-interval", beats.interval);
    config.set("middleman.connection-timeout", beats.timeout);
    config.add_message_type<blob>("blob");
    config.set("scheduler.max-threads", std::size_t{2});
    system = std::make_unique<caf::actor_system>(config);
    tls_transport::options o{std::move(own), std::move(admit)};
    o.handshake_limit = 1s;
    if (change) change(o);
    auto started = tls_transport::start(*system, std::move(o));
    if (!started) throw std::runtime_error(started.error().message);
    transport = std::move(*started);
  }

  expected<caf::actor> connect(uint16_t port) const {
    caf::scoped_actor self(*system);
    expected<caf::actor> found = fail(errc::timeout, "no reply");
    self->request(transport->middleman(), answer_limit, caf::connect_atom_v, std::string("127.0.0.1"), port)
        .receive([&](caf::node_id&, caf::strong_actor_ptr& actor,
                     std::set<std::string>&) { found = caf::actor_cast<caf::actor>(actor); },
                 [&](caf::error& e) { found = tl::unexpected<error>(from_caf(e)); });
    return found;
  }

  template <class T>
  expected<T> ask(const caf::actor& other, T value) const {
    caf::scoped_actor self(*system);
    return ask_blocking<T>(self, other, answer_limit, std::move(value));
  }

  caf::actor_system_config config;
  std::unique_ptr<caf::actor_system> system;
  std::unique_ptr<tls_transport> transport;
};

// A coordinator with an actor that returns what it gets.
struct server : node {
  explicit server(const cluster& c, admission admit = admit_agents,
                  const std::function<void(tls_transport::options&)>& change = {}, heartbeats beats = {})
      : node(c.coordinator(), std::move(admit), change, beats) {
    echo = system->spawn([texts = texts, blobs = blobs](caf::event_based_actor* self) -> caf::behavior {
      self->set_default_handler(caf::drop);
      return {[texts](std::string& text) {
                ++*texts;
                return std::move(text);
              },
              [blobs](blob& bytes) {
                ++*blobs;
                return std::move(bytes);
              }};
    });
    const auto published = transport->publish(caf::actor_cast<caf::strong_actor_ptr>(echo), {}, "127.0.0.1", 0);
    if (!published) throw std::runtime_error(published.error().message);
    port = *published;
  }
  ~server() { caf::anon_send_exit(echo, caf::exit_reason::user_shutdown); }

  using counter = std::shared_ptr<std::atomic<int>>;
  // Messages that have reached the actor.
  counter texts = std::make_shared<std::atomic<int>>(0), blobs = std::make_shared<std::atomic<int>>(0);
  caf::actor echo;
  uint16_t port = 0;
};

// Whether the actor of another node is reported as down after `action`.
bool goes_down(const node& of, const caf::actor& actor, const std::function<void(caf::scoped_actor&)>& action) {
  caf::scoped_actor self(*of.system);
  self->monitor(actor);
  action(self);
  bool down = false;
  self->receive([&](caf::down_msg&) { down = true; }, caf::after(patience) >> [] {});
  return down;
}

// An agent whose connection to a server is used all the time, in a thread of its own, until the end of the test.
class steady_connection {
 public:
  steady_connection(const cluster& c, uint16_t port) : node_(c.issue("steady"), admit_coordinators) {
    auto echo = node_.connect(port);
    if (!echo) throw std::runtime_error(echo.error().message);
    thread_ = std::thread([this, echo = *echo] {
      do {
        const auto begun = steady_clock::now();
        const auto reply = node_.ask<std::string>(echo, "are you there");
        reply ? ++answers_ : ++failures_;
        const auto took = steady_clock::now() - begun;
        if (took > slowest_) slowest_ = took;
        std::this_thread::sleep_for(1ms);
      } while (!stop_);
    });
  }
  ~steady_connection() {
    stop_ = true;
    thread_.join();
    EXPECT_EQ(failures_, 0);
    EXPECT_GT(answers_, 0);
    EXPECT_LT(slowest_, 3s);
  }

 private:
  node node_;
  std::atomic<bool> stop_{false};
  int answers_ = 0, failures_ = 0;
  steady_clock::duration slowest_{0};
  std::thread thread_;
};

// ---- what a process uses ------------------------------------------------------------------------------------------

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

int64_t resident_bytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

// At its end, the process has the descriptors and, within 64 MiB, the memory that it had at its begin.
class unchanged_process {
 public:
  ~unchanged_process() {
    EXPECT_TRUE(eventually([this] { return open_descriptors() <= descriptors_; }))
        << open_descriptors() << " descriptors instead of " << descriptors_;
#ifndef __SANITIZE_ADDRESS__  // keeps freed memory
    EXPECT_LT(resident_bytes() - resident_, 64 << 20);
#endif
  }

 private:
  std::size_t descriptors_ = open_descriptors();
  int64_t resident_ = resident_bytes();
};

// ---- attackers ----------------------------------------------------------------------------------------------------

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

// What the other side sends until it closes the connection; nothing if it does not close it in time.
std::optional<std::string> answer_until_closed(int fd) {
  std::string answer;
  char buffer[4096];
  while (is_readable(fd, static_cast<int>(std::chrono::milliseconds(patience).count()))) {
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

// The header of CAF's protocol, version 3.
std::string basp_header(uint8_t operation, uint32_t payload_bytes) {
  std::string header(32, '\0');
  header[0] = static_cast<char>(operation);
  const uint32_t swapped = htonl(payload_bytes);
  std::memcpy(header.data() + 4, &swapped, sizeof swapped);
  return header;
}
constexpr uint8_t client_handshake = 1;

// TLS that is not this project's.
class raw_tls {
 public:
  explicit raw_tls(const identity* own, const SSL_METHOD* method = TLS_client_method())
      : context_(SSL_CTX_new(method), SSL_CTX_free) {
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

  bool connect(uint16_t port) {
    fd_ = tcp_connection(port);
    const timeval limit{5, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    SSL_set_fd(ssl_.get(), fd_.get());
    return SSL_connect(ssl_.get()) == 1;
  }
  bool accept(unique_fd from) {
    fd_ = std::move(from);
    SSL_set_fd(ssl_.get(), fd_.get());
    return SSL_accept(ssl_.get()) == 1;
  }
  void most_version(int version) { SSL_set_max_proto_version(ssl_.get(), version); }
  bool send(const std::string& bytes) {
    return SSL_write(ssl_.get(), bytes.data(), static_cast<int>(bytes.size())) == static_cast<int>(bytes.size());
  }
  // The next bytes; none at an error or the end.
  std::string receive() {
    std::string bytes(4096, '\0');
    const int n = SSL_read(ssl_.get(), bytes.data(), static_cast<int>(bytes.size()));
    bytes.resize(static_cast<std::size_t>(std::max(n, 0)));
    ERR_clear_error();
    return bytes;
  }
  // The first message of a handshake, without a connection.
  std::string hello() {
    BIO* out = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), out);
    SSL_connect(ssl_.get());
    ERR_clear_error();
    char* bytes = nullptr;
    const long size = BIO_get_mem_data(out, &bytes);
    return std::string(bytes, static_cast<std::size_t>(size));
  }
  unique_fd& fd() { return fd_; }

 private:
  static std::unique_ptr<BIO, decltype(&BIO_free)> memory(const std::string& text) {
    return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free};
  }
  std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  unique_fd fd_;
  std::unique_ptr<SSL, decltype(&SSL_free)> ssl_{nullptr, SSL_free};
};

// An address and port that other programs would have to know.
struct listening_socket {
  listening_socket() {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof at;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), bytes), 0);
    EXPECT_EQ(::listen(fd.get(), 16), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &bytes), 0);
    port = ntohs(at.sin_port);
  }
  unique_fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  uint16_t port = 0;
};

// Passes one connection on to a server, and keeps what the client sent.
class relay {
 public:
  explicit relay(uint16_t to) : thread_([this, to] { pass_on(to); }) {}
  ~relay() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  uint16_t port() const { return listening_.port; }
  // From now on nothing is passed on, as if a cable were cut.
  void stall() { stalled_ = true; }
  // Once the client has closed its connection.
  std::string recorded() {
    thread_.join();
    return recorded_;
  }

 private:
  void pass_on(uint16_t to) {
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
  void serve() {
    if (!raw_.accept(unique_fd(::accept4(listening_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC)))) return;
    raw_.send(std::string(10, '\0'));
    answer_until_closed(raw_.fd().get());
  }
  listening_socket listening_;
  raw_tls raw_;
  std::thread thread_;
};

// Prints the seed, so that a failure can be repeated.
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

// ---- connections --------------------------------------------------------------------------------------------------

TEST(tls_transport, two_nodes_exchange_messages) {
  const cluster c;
  const server head(c);
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto echo = agent.connect(head.port);
  ASSERT_TRUE(echo) << echo.error().message;
  const auto reply = agent.ask<std::string>(*echo, "hello");
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(*reply, "hello");
  auto random = seeded();
  const std::string bytes = random_bytes(random, 8 << 20);
  const blob large(bytes.begin(), bytes.end());
  for (int i = 0; i < 3; ++i) {
    const auto back = agent.ask<blob>(*echo, large);
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_TRUE(*back == large);
  }
}

TEST(tls_transport, a_node_can_connect_again_and_again) {
  const cluster c;
  const identity own = c.issue("gpu-7");
  const server head(c);
  {
    const node first(own, admit_coordinators);
    ASSERT_TRUE(first.connect(head.port));
  }
  const unchanged_process check;
  for (int i = 0; i < 20; ++i) {
    const node agent(own, admit_coordinators);
    const auto echo = agent.connect(head.port);
    ASSERT_TRUE(echo) << i << ": " << echo.error().message;
    EXPECT_TRUE(agent.ask<std::string>(*echo, "hello")) << i;
  }
}

TEST(tls_transport, an_actor_is_down_once_its_node_is_gone) {
  const cluster c;
  const node agent(c.issue("gpu-7"), admit_coordinators);
  auto head = std::make_unique<server>(c);
  const auto echo = agent.connect(head->port);
  ASSERT_TRUE(echo);
  EXPECT_TRUE(goes_down(agent, *echo, [&](caf::scoped_actor&) { head.reset(); }));
}

TEST(tls_transport, a_port_in_use_and_a_foreign_address_are_errors_that_say_so) {
  const cluster c;
  const server head(c);
  const auto whom = caf::actor_cast<caf::strong_actor_ptr>(head.echo);
  const auto twice = head.transport->publish(whom, {}, "127.0.0.1", head.port);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, errc::io_error);
  EXPECT_EQ(twice.error().message,
            "port " + std::to_string(head.port) + " of 127.0.0.1 is in use by another program: choose another port");
  EXPECT_EQ(head.transport->publish(whom, {}, "192.0.2.1", 0).error().message,
            "192.0.2.1 is not an address of this machine");
  EXPECT_EQ(head.transport->publish(whom, {}, "", 0).error().code, errc::invalid_argument);
  EXPECT_EQ(head.transport->publish(nullptr, {}, "127.0.0.1", 0).error().code, errc::invalid_argument);
  const node agent(c.issue("gpu-7"), admit_coordinators);
  EXPECT_EQ(agent.transport->publish(whom, {}, "127.0.0.1", 0).error().code, errc::invalid_argument);
}

TEST(tls_transport, its_middleman_opens_no_plain_text_port) {
  const cluster c;
  const server head(c);
  caf::scoped_actor self(*head.system);
  uint16_t port = 0;
  self->request(head.transport->middleman(), answer_limit, caf::publish_atom_v, uint16_t{0},
                caf::actor_cast<caf::strong_actor_ptr>(head.echo), std::set<std::string>{}, std::string("127.0.0.1"),
                false)
      .receive([&](uint16_t opened) { port = opened; }, [](caf::error&) {});
  ASSERT_NE(port, 0);
  const unique_fd fd = tcp_connection(port);
  send_all(fd.get(), basp_header(client_handshake, 0));
  const auto answer = answer_until_closed(fd.get());
  ASSERT_TRUE(answer);
  EXPECT_LE(answer->size(), 7u) << "a TLS alert";
}

TEST(tls_transport, a_system_without_a_middleman_or_with_automatic_connections_is_refused) {
  const cluster c;
  caf::actor_system_config plain;
  caf::actor_system without(plain);
  EXPECT_EQ(tls_transport::start(without, {c.coordinator(), admit_agents}).error().code, errc::invalid_argument);
  caf::actor_system_config automatic;
  automatic.load<caf::io::middleman>();
  automatic.set("middleman.enable-automatic-connections", true);
  caf::actor_system with(automatic);
  EXPECT_EQ(tls_transport::start(with, {c.coordinator(), admit_agents}).error().code, errc::invalid_argument);
}

TEST(tls_transport, a_silent_server_is_given_up_and_delays_nothing_else) {
  const cluster c;
  const server head(c);
  const listening_socket silent;
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto echo = agent.connect(head.port);
  ASSERT_TRUE(echo);
  std::atomic<bool> done{false};
  expected<caf::actor> connected = fail(errc::infrastructure, "not tried");
  const auto begun = steady_clock::now();
  std::thread connecting([&] {
    connected = agent.connect(silent.port);
    done = true;
  });
  int answers = 0;
  while (!done) {
    EXPECT_TRUE(agent.ask<std::string>(*echo, "hello"));
    ++answers;
  }
  connecting.join();
  EXPECT_GT(answers, 20);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, errc::timeout) << connected.error().message;
  EXPECT_LT(steady_clock::now() - begun, 4s);
}

TEST(tls_transport, a_node_stops_in_the_middle_of_a_connection_attempt) {
  const cluster c;
  const listening_socket silent;
  const auto begun = steady_clock::now();
  {
    const node agent(c.issue("gpu-7"), admit_coordinators, [](auto& o) { o.handshake_limit = 60s; });
    caf::anon_send(agent.transport->middleman(), caf::connect_atom_v, std::string("127.0.0.1"), silent.port);
    ASSERT_TRUE(is_readable(silent.fd.get(), 5000));
  }
  EXPECT_LT(steady_clock::now() - begun, 10s);
}

TEST(tls_transport, a_server_that_greets_with_half_a_message_is_given_up) {
  const cluster c;
  tongue_tied_server other(c.coordinator());
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto begun = steady_clock::now();
  EXPECT_FALSE(agent.connect(other.port()));
  EXPECT_LT(steady_clock::now() - begun, 4s);
}

TEST(tls_transport, a_cut_connection_with_unsent_messages_is_closed_at_both_ends) {
  const cluster c;
  const heartbeats beats{200ms, 1s};
  const server head(c, admit_agents, {}, beats);
  const node agent(c.issue("gpu-7"), admit_coordinators, {}, beats);
  relay between(head.port);
  const auto before = open_descriptors();
  const auto echo = agent.connect(between.port());
  ASSERT_TRUE(echo) << echo.error().message;
  EXPECT_TRUE(goes_down(agent, *echo, [&](caf::scoped_actor& self) {
    between.stall();
    for (int i = 0; i < 4; ++i)
      self->send(*echo, blob(8 << 20));
  }));
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before + 2; })) << "the relay's two";
}

TEST(tls_transport, no_server_and_no_host_are_errors_that_say_so) {
  const cluster c;
  const node agent(c.issue("gpu-7"), admit_coordinators);
  uint16_t unused = 0;
  { unused = listening_socket().port; }
  const auto refused = agent.connect(unused);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "127.0.0.1:" + std::to_string(unused) + " cannot be reached: Connection refused");
}

// ---- who is admitted ----------------------------------------------------------------------------------------------

TEST(tls_transport, a_peer_without_a_certificate_reaches_no_actor) {
  const cluster c;
  const server head(c, [](const peer&) -> expected<void> {
    ADD_FAILURE() << "it should not be asked";
    return {};
  });
  raw_tls without(nullptr);
  without.connect(head.port);
  EXPECT_EQ(without.receive(), "");
  EXPECT_EQ(*head.texts + *head.blobs, 0);
}

TEST(tls_transport, a_peer_of_another_authority_reaches_no_actor) {
  const cluster c, other;
  const server head(c, [](const peer&) -> expected<void> {
    ADD_FAILURE() << "it should not be asked";
    return {};
  });
  const identity own = other.issue("gpu-7");
  raw_tls stranger(&own);
  stranger.connect(head.port);
  EXPECT_EQ(stranger.receive(), "");
  const node agent(own, admit_coordinators);
  const auto connected = agent.connect(head.port);
  ASSERT_FALSE(connected);
  EXPECT_NE(connected.error().message.find("certificate"), std::string::npos) << connected.error().message;
  EXPECT_EQ(*head.texts + *head.blobs, 0);
}

TEST(tls_transport, an_expired_certificate_reaches_no_actor) {
  const cluster c;
  const auto long_ago = std::chrono::system_clock::now() - std::chrono::hours(4 * 365 * 24);
  const std::string path = c.folder / "old.pem";
  write_text(path, *c.authority.issue("old", peer_role::agent, long_ago));
  const auto old = read_identity(path, long_ago + std::chrono::hours(1));
  ASSERT_FALSE(old) << "the authority is younger";
  identity own = c.issue("gpu-7");
  const std::string text = read_text(path);
  own.key = text.substr(0, text.find("-----BEGIN CERTIFICATE"));
  own.certificate = text.substr(own.key.size(), text.find("-----BEGIN", own.key.size() + 1) - own.key.size());
  const server head(c);
  const node agent(own, admit_coordinators);
  const auto connected = agent.connect(head.port);
  ASSERT_FALSE(connected);
  EXPECT_NE(connected.error().message.find("expired"), std::string::npos) << connected.error().message;
}

TEST(tls_transport, a_peer_with_the_wrong_role_reaches_no_actor) {
  const cluster c;
  const server head(c);
  const identity own = c.issue("laptop", peer_role::client);
  const node laptop(own, admit_coordinators);
  const auto connected = laptop.connect(head.port);
  ASSERT_FALSE(connected);
  raw_tls raw(&own);
  EXPECT_TRUE(raw.connect(head.port));
  EXPECT_EQ(raw.receive(), "");
  EXPECT_EQ(*head.texts + *head.blobs, 0);
}

TEST(tls_transport, an_agent_cannot_pass_for_a_coordinator) {
  const cluster c;
  // A server of an agent's identity, whose owner has changed its own program to serve with it.
  identity posing = c.issue("gpu-7");
  posing.role = peer_role::coordinator;
  const node thief(posing, [](const peer&) -> expected<void> { return {}; });
  const auto echo = thief.system->spawn(
      [](caf::event_based_actor*) -> caf::behavior { return {[](std::string& text) { return std::move(text); }}; });
  const auto port = thief.transport->publish(caf::actor_cast<caf::strong_actor_ptr>(echo), {}, "127.0.0.1", 0);
  ASSERT_TRUE(port);
  const node agent(c.issue("gpu-8"), [](const peer&) -> expected<void> { return {}; });
  const auto connected = agent.connect(*port);
  EXPECT_FALSE(connected);
  caf::anon_send_exit(echo, caf::exit_reason::user_shutdown);
}

TEST(tls_transport, a_revoked_peer_is_refused_and_its_connection_closed) {
  const cluster c;
  revocations revoked(c.data);
  const server head(c, [&](const peer& who) -> expected<void> {
    if (revoked.is_revoked(who.serial)) return fail(errc::refused, "{} is revoked", who.name);
    return {};
  });
  const node gone(c.issue("gone"), admit_coordinators), kept(c.issue("kept"), admit_coordinators);
  const auto of_gone = gone.connect(head.port), of_kept = kept.connect(head.port);
  ASSERT_TRUE(of_gone && of_kept);
  ASSERT_TRUE(c.authority.revoke("gone"));
  EXPECT_TRUE(goes_down(gone, *of_gone, [&](caf::scoped_actor&) { head.transport->close_refused(); }));
  const auto again = gone.connect(head.port);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("the server's log says whether it refused"), std::string::npos)
      << again.error().message;
  EXPECT_TRUE(kept.ask<std::string>(*of_kept, "hello"));
}

TEST(tls_transport, an_admission_that_throws_refuses) {
  const cluster c;
  const server head(c, [](const peer&) -> expected<void> { throw std::runtime_error("no disk"); });
  const node agent(c.issue("gpu-7"), admit_coordinators);
  EXPECT_FALSE(agent.connect(head.port));
}

TEST(tls_transport, older_versions_of_tls_are_refused) {
  const cluster c;
  const server head(c);
  const identity own = c.issue("gpu-7");
  raw_tls old(&own);
  old.most_version(TLS1_2_VERSION);
  EXPECT_FALSE(old.connect(head.port));
}

// ---- attacks on the open port -------------------------------------------------------------------------------------

TEST(attacks, garbage_disturbs_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  auto random = seeded();
  for (int i = 0; i < 500; ++i) {
    unique_fd fd = tcp_connection(head.port);
    send_all(fd.get(), random_bytes(random, random() % 2000));
    if (i % 3 == 0) {
      close_with_reset(std::move(fd));
    } else if (i % 50 == 1) {
      EXPECT_TRUE(answer_until_closed(fd.get())) << "closed by its time limit at the latest";
    }
  }
}

TEST(attacks, truncated_and_changed_hellos_disturb_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  auto random = seeded();
  const std::string hello = raw_tls(nullptr).hello();
  ASSERT_GT(hello.size(), 100u);
  for (std::size_t length = 0; length < hello.size(); length += 3)
    send_all(tcp_connection(head.port).get(), std::string_view(hello).substr(0, length));
  for (int i = 0; i < 500; ++i) {
    std::string changed = hello;
    for (int changes = 0; changes < 1 + i % 5; ++changes)
      changed[random() % changed.size()] = static_cast<char>(random());
    const unique_fd fd = tcp_connection(head.port);
    send_all(fd.get(), changed);
    if (i % 2 == 0) is_readable(fd.get(), 20);
  }
}

TEST(attacks, idle_connections_are_limited_in_number) {
  const cluster c;
  const server head(c, admit_agents, [](auto& o) { o.handshake_limit = 60s; });
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  std::vector<unique_fd> idle;
  for (int i = 0; i < 200; ++i)
    idle.push_back(tcp_connection(head.port));
  const auto closed = [&] {
    return std::count_if(idle.begin(), idle.end(), [](auto& fd) { return is_closed(fd.get()); });
  };
  EXPECT_TRUE(eventually([&] { return closed() == 200 - 64; })) << closed();
  EXPECT_FALSE(is_closed(idle.back().get())) << "the oldest are closed";
  const node agent(c.issue("gpu-7"), admit_coordinators);
  EXPECT_TRUE(agent.connect(head.port)) << "its handshake is the newest";
}

TEST(attacks, idle_connections_are_limited_in_time) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  const auto begun = steady_clock::now();
  const unique_fd silent = tcp_connection(head.port), begins = tcp_connection(head.port);
  send_all(begins.get(), std::string_view(raw_tls(nullptr).hello()).substr(0, 50));
  EXPECT_TRUE(answer_until_closed(silent.get()));
  EXPECT_TRUE(answer_until_closed(begins.get()));
  EXPECT_GT(steady_clock::now() - begun, 900ms);
  EXPECT_LT(steady_clock::now() - begun, 3s);
}

TEST(attacks, an_admitted_peer_that_sends_no_message_is_closed) {
  const cluster c;
  const server head(c);
  const unchanged_process check;
  const identity own = c.issue("gpu-7");
  const std::string greeting = basp_header(client_handshake, 100) + std::string(100, 'x');
  std::vector<std::unique_ptr<raw_tls>> peers;
  for (const std::size_t sent : {0, 10, 32, 40}) {
    raw_tls& raw = *peers.emplace_back(std::make_unique<raw_tls>(&own));
    ASSERT_TRUE(raw.connect(head.port));
    EXPECT_NE(raw.receive(), "") << "the server's greeting";
    if (sent > 0) {
      ASSERT_TRUE(raw.send(greeting.substr(0, sent)));
    }
  }
  for (const auto& raw : peers)
    EXPECT_TRUE(answer_until_closed(raw->fd().get()));
}

TEST(attacks, idle_connections_take_no_processor_time) {
  const cluster c;
  const server head(c, admit_agents, [](auto& o) { o.handshake_limit = 60s; });
  const node agent(c.issue("gpu-7"), admit_coordinators);
  ASSERT_TRUE(agent.connect(head.port));
  const unique_fd silent = tcp_connection(head.port), begins = tcp_connection(head.port);
  send_all(begins.get(), std::string_view(raw_tls(nullptr).hello()).substr(0, 50));
  EXPECT_FALSE(is_readable(silent.get(), 200)) << "the settling of the actor systems";
  const auto before = std::clock();
  EXPECT_FALSE(is_readable(silent.get(), 500));
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 4) << "half of the time";
}

TEST(attacks, plain_text_is_closed_without_an_answer_of_caf) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unique_fd fd = tcp_connection(head.port);
  send_all(fd.get(), basp_header(client_handshake, 0));
  const auto answer = answer_until_closed(fd.get());
  ASSERT_TRUE(answer);
  EXPECT_LE(answer->size(), 7u) << "a TLS alert";
}

TEST(attacks, a_message_above_the_limit_closes_only_its_own_connection) {
  const cluster c;
  const server head(c, admit_agents, [](auto& o) { o.most_message_bytes = 1 << 20; });
  const steady_connection steady(c, head.port);
  const node agent(c.issue("gpu-7"), admit_coordinators);
  const auto echo = agent.connect(head.port);
  ASSERT_TRUE(echo);
  EXPECT_TRUE(agent.ask<blob>(*echo, blob(1'000'000)));
  EXPECT_TRUE(goes_down(agent, *echo, [&](caf::scoped_actor& self) { self->send(*echo, blob(3 << 20)); }));
  const auto again = agent.connect(head.port);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_TRUE(agent.ask<std::string>(*again, "hello"));
}

TEST(attacks, an_announced_message_of_4_gib_takes_no_memory) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  const identity own = c.issue("gpu-7");
  for (int i = 0; i < 20; ++i) {
    raw_tls raw(&own);
    ASSERT_TRUE(raw.connect(head.port));
    ASSERT_TRUE(raw.send(basp_header(client_handshake, 0xffffffff)));
    EXPECT_TRUE(answer_until_closed(raw.fd().get()));
  }
}

TEST(attacks, a_peer_that_dies_in_mid_message_disturbs_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const unchanged_process check;
  const identity own = c.issue("gpu-7");
  for (int i = 0; i < 40; ++i) {
    raw_tls raw(&own);
    ASSERT_TRUE(raw.connect(head.port));
    ASSERT_TRUE(raw.send(basp_header(client_handshake, 32 << 20) + std::string(500'000, 'x')));
    if (i % 2 == 0) close_with_reset(std::move(raw.fd()));
  }
}

TEST(attacks, a_node_that_dies_with_large_messages_under_way_disturbs_no_connection) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const identity own = c.issue("gpu-7");
  for (int i = 0; i < 5; ++i) {
    const node agent(own, admit_coordinators);
    const auto echo = agent.connect(head.port);
    ASSERT_TRUE(echo) << echo.error().message;
    caf::scoped_actor self(*agent.system);
    for (int sent = 0; sent < 4; ++sent)
      self->send(*echo, blob(4 << 20));
  }
}

TEST(attacks, a_recorded_session_cannot_be_replayed) {
  const cluster c;
  const server head(c);
  const steady_connection steady(c, head.port);
  const identity own = c.issue("gpu-7");
  std::string recorded;
  {
    relay between(head.port);
    {
      const node agent(own, admit_coordinators);
      const auto echo = agent.connect(between.port());
      ASSERT_TRUE(echo) << echo.error().message;
      ASSERT_TRUE(agent.ask<blob>(*echo, blob(1000, 42)));
    }
    recorded = between.recorded();
  }
  ASSERT_GT(recorded.size(), 1500u);
  const int before = *head.blobs;
  EXPECT_EQ(before, 1);
  const unchanged_process check;
  for (int i = 0; i < 20; ++i) {
    const unique_fd fd = tcp_connection(head.port);
    send_all(fd.get(), recorded);
    const auto answer = answer_until_closed(fd.get());
    ASSERT_TRUE(answer);
    EXPECT_LT(answer->size(), 3000u) << "the server's part of a handshake at most";
  }
  EXPECT_EQ(*head.blobs, before);
}

}  // namespace
}  // namespace cudal1
