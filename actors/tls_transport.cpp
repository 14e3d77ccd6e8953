#include "actors/tls_transport.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/stream.hpp>
#include <netdb.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "actors/caf_layer.hpp"
#include "actors/openssl_objects.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

namespace network = caf::io::network;
using std::chrono::steady_clock;

// Buffers above this size are freed after a message instead of being kept for the next one.
constexpr std::size_t most_kept_buffer_bytes = 1 << 20;
constexpr long most_certificate_list_bytes = 16 << 10;
constexpr std::size_t most_bytes_a_call = 1 << 30;
constexpr std::chrono::seconds close_port_limit{2};

// ---- OpenSSL ------------------------------------------------------------------------------------------------------

using ssl_ptr = std::unique_ptr<SSL, freed_by<SSL_free>>;
using context_ptr = std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>>;

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

BIO* make(int fd) {
  BIO* made = method() != nullptr ? BIO_new(method()) : nullptr;
  if (made == nullptr) return nullptr;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer is all that a BIO keeps for its method
  BIO_set_data(made, reinterpret_cast<void*>(static_cast<intptr_t>(fd)));
  BIO_set_init(made, 1);
  return made;
}

}  // namespace socket_bio

// TLS 1.3, a certificate from both sides, no session that could be resumed.
expected<context_ptr> make_context(const identity& own) {
  ERR_clear_error();
  context_ptr context(SSL_CTX_new(TLS_method()));
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

enum class side { accepting, connecting };

// One connection's TLS over a non-blocking socket, and the policy by which caf::io::network::stream reads and writes.
class tls_session {
 public:
  enum class step { done, wants_read, wants_write, failed };

  static expected<tls_session> make(SSL_CTX* context, int fd, side which) {
    ERR_clear_error();
    tls_session made(SSL_new(context));
    BIO* bio = made.ssl_ ? socket_bio::make(fd) : nullptr;
    if (bio == nullptr) return openssl_failed("a connection");
    SSL_set_bio(made.ssl_.get(), bio, bio);  // takes it
    which == side::accepting ? SSL_set_accept_state(made.ssl_.get()) : SSL_set_connect_state(made.ssl_.get());
    return made;
  }

  // Goes on with the handshake as far as the socket allows.
  step handshake() {
    return take_step([this] { return SSL_do_handshake(ssl_.get()); });
  }
  // `done` once a byte of the peer can be read.
  step wait_for_data() {
    char byte = 0;
    return take_step([&] { return SSL_peek(ssl_.get(), &byte, 1); });
  }
  // Why the last step failed.
  const std::string& problem() const { return problem_; }
  certificate_ptr peer_certificate() const { return certificate_ptr(SSL_get1_peer_certificate(ssl_.get())); }
  // Whether bytes have been taken from the socket that nobody has read.
  bool has_buffered() const { return SSL_pending(ssl_.get()) > 0; }
  // From now on every read and write fails.
  void break_off() { broken_ = true; }

  // ---- the policy of a stream; "success" without bytes means that the socket would block ----
  network::rw_state read_some(std::size_t& bytes, network::native_socket, void* to, std::size_t most) {
    return transfer(bytes, most, [&](int n) { return SSL_read(ssl_.get(), to, n); });
  }
  network::rw_state write_some(std::size_t& bytes, network::native_socket, const void* from, std::size_t most) {
    return transfer(bytes, most, [&](int n) { return SSL_write(ssl_.get(), from, n); });
  }
  // Bytes that OpenSSL has taken from the socket do not wake the I/O thread again.
  bool must_read_more(network::native_socket, std::size_t threshold) {
    return !broken_ && static_cast<std::size_t>(SSL_pending(ssl_.get())) >= threshold;
  }

 private:
  explicit tls_session(SSL* ssl) : ssl_(ssl) {}

  template <class Call>
  step take_step(Call call) {
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
  network::rw_state transfer(std::size_t& bytes, std::size_t most, Call call) {
    bytes = 0;
    if (broken_) return network::rw_state::failure;
    if (most == 0) return network::rw_state::success;
    ERR_clear_error();
    const int result = call(static_cast<int>(std::min(most, most_bytes_a_call)));
    if (result > 0) {
      bytes = static_cast<std::size_t>(result);
      return network::rw_state::success;
    }
    const int reason = SSL_get_error(ssl_.get(), result);
    ERR_clear_error();
    if (reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE) return network::rw_state::success;
    broken_ = true;
    return network::rw_state::failure;
  }

  ssl_ptr ssl_;
  bool broken_ = false;
  std::string problem_;
};

// ---- limits -------------------------------------------------------------------------------------------------------

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

  connection_table(std::size_t most_handshakes, std::chrono::seconds limit)
      : most_handshakes_(most_handshakes), limit_(limit), sweeper_([this] { sweep(); }) {
    ::pthread_setname_np(sweeper_.native_handle(), "tls-limits");
  }
  ~connection_table() { stop(); }
  connection_table(const connection_table&) = delete;
  connection_table& operator=(const connection_table&) = delete;

  // Adds the socket, or moves it to another stage.
  void enter(int fd, stage to) {
    const std::lock_guard guard(mutex_);
    if (stopped_) return shut_down(fd);
    entry& e = entries_.try_emplace(fd, entry{next_id_, stage::open, {}, std::nullopt}).first->second;
    if (e.id == next_id_) ++next_id_;
    e.now = to;
    e.deadline = to == stage::open ? steady_clock::time_point::max() : steady_clock::now() + limit_;
    if (to == stage::handshake) close_oldest_handshake();
    changed_.notify_one();
  }
  void set_peer(int fd, const peer& who) {
    const std::lock_guard guard(mutex_);
    if (const auto at = entries_.find(fd); at != entries_.end()) at->second.who = who;
  }
  // Before the socket is closed: its number can be another one's afterwards.
  void leave(int fd) {
    const std::lock_guard guard(mutex_);
    entries_.erase(fd);
  }

  template <class Refused>
  void close_if(Refused refused) {
    std::map<int, entry> known;
    {
      const std::lock_guard guard(mutex_);
      known = entries_;
    }
    std::erase_if(known, [&](const auto& at) { return !at.second.who || !refused(*at.second.who); });
    const std::lock_guard guard(mutex_);
    for (const auto& [fd, e] : known) {
      if (const auto at = entries_.find(fd); at != entries_.end() && at->second.id == e.id) shut_down(fd);
    }
  }

  // Shuts down all sockets, and those that come later.
  void stop() {
    {
      const std::lock_guard guard(mutex_);
      if (!stopped_) {
        for (const auto& [fd, e] : entries_)
          shut_down(fd);
      }
      stopped_ = true;
      changed_.notify_one();
    }
    if (sweeper_.joinable()) sweeper_.join();
  }

 private:
  struct entry {
    uint64_t id = 0;
    stage now = stage::open;
    steady_clock::time_point deadline;
    std::optional<peer> who;
  };

  static void shut_down(int fd) { ::shutdown(fd, SHUT_RDWR); }

  void close_oldest_handshake() {
    std::size_t handshakes = 0;
    auto oldest = entries_.end();
    for (auto at = entries_.begin(); at != entries_.end(); ++at) {
      if (at->second.now != stage::handshake) continue;
      ++handshakes;
      if (oldest == entries_.end() || at->second.id < oldest->second.id) oldest = at;
    }
    if (handshakes > most_handshakes_) end(oldest->first, oldest->second);
  }

  // The entry stays until the socket is closed, without counting or ending again.
  static void end(int fd, entry& e) {
    shut_down(fd);
    e.now = stage::open;
    e.deadline = steady_clock::time_point::max();
  }

  void sweep() {
    std::unique_lock guard(mutex_);
    while (!stopped_) {
      const auto now = steady_clock::now();
      auto next = steady_clock::time_point::max();
      for (auto& [fd, e] : entries_) {
        if (e.deadline <= now) end(fd, e);
        next = std::min(next, e.deadline);
      }
      if (next == steady_clock::time_point::max()) {
        changed_.wait(guard);
      } else {
        changed_.wait_until(guard, next);
      }
    }
  }

  const std::size_t most_handshakes_;
  const std::chrono::seconds limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  uint64_t next_id_ = 1;
  std::map<int, entry> entries_;
  std::thread sweeper_;  // the last member: it uses the others
};

}  // namespace

struct tls_transport::shared_state {
  shared_state(options o, context_ptr c, unique_fd s)
      : settings(std::move(o)),
        context(std::move(c)),
        stopping(std::move(s)),
        connections(settings.most_handshakes, settings.handshake_limit) {}

  // Who is at the other side, if it may be there.
  expected<peer> admit(const tls_session& session, side which) const {
    const certificate_ptr certificate = session.peer_certificate();
    CUDAL1_TRY(peer who, peer_of(certificate.get()));
    if (which == side::connecting && who.role != peer_role::coordinator)
      return fail(errc::refused, "{} is not a coordinator", who.name);
    CUDAL1_CHECK(ask(who));
    return who;
  }
  expected<void> ask(const peer& who) const {
    const std::shared_lock guard(asking_);
    if (ended_) return fail(errc::cancelled, "this node is stopping");
    return exceptions_as_errors("the admission of a peer", [&] { return settings.admit(who); });
  }

  // Afterwards nothing calls the options' functions, although connections can live on for a moment.
  void end() {
    const std::lock_guard guard(asking_);
    ended_ = true;
    ::eventfd_write(stopping.get(), 1);
  }

  const options settings;
  const context_ptr context;
  const unique_fd stopping;  // readable once the transport ends
  connection_table connections;

 private:
  mutable std::shared_mutex asking_;
  bool ended_ = false;
};

namespace {

// ---- a connection in CAF's I/O loop -------------------------------------------------------------------------------

using stage = connection_table::stage;

// CAF's broker identifies connections by number. Its own choice, the descriptor's, can be another connection's while
// the broker still clears up after the closed one.
caf::io::connection_handle next_handle() {
  static std::atomic<int64_t> next{int64_t{1} << 32};
  return caf::io::connection_handle::from_int(next.fetch_add(1));
}

// CAF's address and port of a descriptor, for its log and its queries.
std::string address_of(int fd) {
  auto address = network::remote_addr_of_fd(fd);
  return address ? *address : std::string();
}
uint16_t port_of(int fd) {
  auto port = network::remote_port_of_fd(fd);
  return port ? *port : uint16_t{0};
}

// Everything here runs in the I/O thread, except the constructors.
template <class State>
class tls_scribe final : public caf::io::scribe {
 public:
  // What becomes of a connection whose peer is admitted; false if nobody wants it.
  using arrival = std::function<bool(caf::io::scribe_ptr)>;

  // Takes the descriptor. An accepted connection has an `arrived`, and its handshake is still to be made; CAF hears of
  // it by `arrived`. Without one the handshake has been made.
  tls_scribe(network::default_multiplexer& backend, unique_fd fd, tls_session session, std::shared_ptr<State> state,
             arrival arrived)
      : scribe(next_handle()),
        state_(std::move(state)),
        arrived_(std::move(arrived)),
        session_(std::move(session)),
        stream_(backend, fd.release(), *this) {}
  ~tls_scribe() override { state_->connections.leave(stream_.fd()); }

  // Waits for the peer's first byte.
  void start() {
    launched_ = true;
    // As CAF's broker would say it, only before it hears of the connection.
    stream_.configure_read(caf::io::receive_policy::exactly(caf::io::basp::header_size));
    stream_.start(this);
  }

  void configure_read(caf::io::receive_policy::config config) override {
    if (config.second > state_->settings.most_message_bytes) {
      spdlog::warn("{}:{} announced a message of {} bytes, and the limit is {}: the connection is closed", addr(),
                   port(), config.second, state_->settings.most_message_bytes);
      return break_off();
    }
    stream_.configure_read(config);
    if (launched_) return;
    launched_ = true;
    stream_.start(this);
    if (session_.has_buffered()) read_later();
  }
  bool consume(caf::execution_unit* unit, const void* data, std::size_t bytes) override {
    // CAF's greeting is a header and its content.
    if (reads_ < 2 && ++reads_ == 2) state_->connections.enter(stream_.fd(), stage::open);
    const bool more = scribe::consume(unit, data, bytes);
    free_if_large(rd_buf());
    return more;
  }
  void graceful_shutdown() override {
    state_->connections.enter(stream_.fd(), stage::closing);
    stream_.graceful_shutdown();
    detach(&stream_.backend(), false);
  }
  void ack_writes(bool enable) override { stream_.ack_writes(enable); }
  std::vector<char>& wr_buf() override { return stream_.wr_buf(); }
  std::vector<char>& rd_buf() override { return stream_.rd_buf(); }
  void flush() override { stream_.flush(this); }
  std::string addr() const override { return address_of(stream_.fd()); }
  uint16_t port() const override { return port_of(stream_.fd()); }
  void add_to_loop() override { stream_.activate(this); }
  void remove_from_loop() override { stream_.passivate(); }

 private:
  class tls_stream final : public network::stream {
   public:
    tls_stream(network::default_multiplexer& backend, int fd, tls_scribe& owner) : stream(backend, fd), owner_(owner) {}
    void handle_event(network::operation op) override {
      if (op == network::operation::read && owner_.arrived_ && !owner_.finish_handshake()) return;
      handle_event_impl(op, owner_.session_);
      if (wr_buf().empty()) free_if_large(wr_buf());
    }

   private:
    tls_scribe& owner_;
  };

  static void free_if_large(std::vector<char>& buffer) {
    if (buffer.capacity() > most_kept_buffer_bytes) std::vector<char>().swap(buffer);
  }

  // False while the handshake goes on. One that fails leaves the session broken, which the next read finds.
  bool finish_handshake() {
    const auto step = session_.handshake();
    if (step == tls_session::step::wants_read || step == tls_session::step::wants_write) return false;
    const arrival arrived = std::exchange(arrived_, nullptr);
    if (step == tls_session::step::failed) {
      spdlog::debug("a handshake with {} failed: {}", addr(), session_.problem());
      return true;
    }
    const auto who = state_->admit(session_, side::accepting);
    if (!who) {
      spdlog::warn("a connection of {} is refused: {}", addr(), who.error().message);
      break_off();
      return true;
    }
    state_->connections.set_peer(stream_.fd(), *who);
    state_->connections.enter(stream_.fd(), stage::first_message);
    if (!arrived(this)) break_off();
    return true;
  }

  void break_off() {
    session_.break_off();
    ::shutdown(stream_.fd(), SHUT_RDWR);
  }

  // The socket does not wake the I/O thread for bytes that the session has taken from it already.
  void read_later() {
    stream_.backend().post([self = caf::intrusive_ptr<tls_scribe>(this)] {
      if (!self->detached()) self->stream_.handle_event(network::operation::read);
    });
  }

  std::shared_ptr<State> state_;
  arrival arrived_;
  bool launched_ = false;
  int reads_ = 0;
  tls_session session_;
  tls_stream stream_;  // closes the descriptor
};

// Accepts connections, and hands them to CAF once their peers are admitted.
template <class State>
class tls_doorman final : public network::doorman_impl {
 public:
  tls_doorman(network::default_multiplexer& backend, unique_fd fd, std::shared_ptr<State> state)
      : doorman_impl(backend, fd.release()), state_(std::move(state)) {}

  bool new_connection() override {
    unique_fd fd(acceptor_.accepted_socket());
    if (detached()) return false;
    network::nonblocking(fd.get(), true);
    network::keepalive(fd.get(), true);
    auto session = tls_session::make(state_->context.get(), fd.get(), side::accepting);
    if (!session) {
      spdlog::error("a connection is dropped: {}", session.error().message);
      return true;
    }
    state_->connections.enter(fd.get(), stage::handshake);
    auto& backend = acceptor_.backend();
    const auto arrived = [door = caf::intrusive_ptr<tls_doorman>(this)](caf::io::scribe_ptr scribe) {
      return door->announce(std::move(scribe));
    };
    caf::make_counted<tls_scribe<State>>(backend, std::move(fd), std::move(*session), state_, arrived)->start();
    return true;
  }

 private:
  bool announce(caf::io::scribe_ptr scribe) {
    if (detached()) return false;
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    doorman::new_connection(&acceptor_.backend(), handle);
    return true;
  }

  std::shared_ptr<State> state_;
};

// ---- sockets ------------------------------------------------------------------------------------------------------

struct free_addresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using addresses = std::unique_ptr<addrinfo, free_addresses>;

expected<addresses> resolve(const std::string& host, uint16_t port, int flags) {
  addrinfo hint{};
  hint.ai_socktype = SOCK_STREAM;
  hint.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int problem =
      host.empty() ? EAI_NONAME : ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hint, &found);
  if (problem != 0)
    return fail(errc::invalid_argument, "'{}' is not an address or a host name: {}", host, ::gai_strerror(problem));
  return addresses(found);
}

unique_fd make_socket(const addrinfo& at) {
  return unique_fd(::socket(at.ai_family, at.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, at.ai_protocol));
}

expected<unique_fd> listen_at(const std::string& address, uint16_t port) {
  CUDAL1_TRY(const addresses found, resolve(address, port, AI_PASSIVE));
  int problem = 0;
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
    unique_fd fd = make_socket(*at);
    const int on = 1;
    if (fd && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(fd.get(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(fd.get(), SOMAXCONN) == 0)
      return fd;
    problem = errno;
  }
  if (problem == EADDRINUSE)
    return fail(errc::io_error, "port {} of {} is in use by another program: choose another port", port, address);
  if (problem == EADDRNOTAVAIL) return fail(errc::io_error, "{} is not an address of this machine", address);
  return fail(errc::io_error, "port {} of {} cannot be listened at: {}", port, address, std::strerror(problem));
}

// Waits until the socket is ready. errc::timeout at the deadline, errc::cancelled once `stopping` is readable.
expected<void> wait_until_ready(int fd, short events, int stopping, steady_clock::time_point deadline) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
    if (left.count() <= 0) return fail(errc::timeout, "no answer in time");
    pollfd waiting[2] = {{fd, events, 0}, {stopping, POLLIN, 0}};
    const int ready = ::poll(waiting, 2, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return fail(errc::io_error, "poll: {}", std::strerror(errno));
    if (ready <= 0) continue;
    if (waiting[1].revents != 0) return fail(errc::cancelled, "this node is stopping");
    return {};
  }
}

expected<unique_fd> connect_to(const addrinfo& at, int stopping, steady_clock::time_point deadline) {
  unique_fd fd = make_socket(at);
  if (!fd) return fail(errc::io_error, "{}", std::strerror(errno));
  if (::connect(fd.get(), at.ai_addr, at.ai_addrlen) == 0) return fd;
  if (errno != EINPROGRESS) return fail(errc::io_error, "{}", std::strerror(errno));
  CUDAL1_CHECK(wait_until_ready(fd.get(), POLLOUT, stopping, deadline));
  int problem = 0;
  socklen_t bytes = sizeof problem;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &problem, &bytes) != 0) problem = errno;
  if (problem != 0) return fail(errc::io_error, "{}", std::strerror(problem));
  return fd;
}

// Tries all of the host's addresses, each in an equal share of the time left.
expected<unique_fd> connect_to(const std::string& host, uint16_t port, int stopping,
                               steady_clock::time_point deadline) {
  CUDAL1_TRY(const addresses found, resolve(host, port, 0));
  int left = 0;
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next)
    ++left;
  expected<unique_fd> connected = fail(errc::io_error, "the host has no address");
  for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next, --left) {
    const auto now = steady_clock::now();
    connected = connect_to(*at, stopping, now + (deadline - now) / left);
    if (connected || connected.error().code == errc::cancelled) break;
  }
  return connected;
}

// Repeats a step of the session until it is done.
template <class Step>
expected<void> finish(tls_session& session, Step step, int fd, int stopping, steady_clock::time_point deadline) {
  for (;;) {
    const tls_session::step reached = step();
    if (reached == tls_session::step::done) return {};
    if (reached == tls_session::step::failed) return fail(errc::io_error, "{}", session.problem());
    const short events = reached == tls_session::step::wants_write ? POLLOUT : POLLIN;
    CUDAL1_CHECK(wait_until_ready(fd, events, stopping, deadline));
  }
}

// ---- the middleman ------------------------------------------------------------------------------------------------

network::default_multiplexer& backend_of(caf::actor_system& system) {
  return static_cast<network::default_multiplexer&>(system.middleman().backend());  // start() has checked it
}

// Opens a port through which peers reach `whom`, or just the node where it is null. Returns the port.
template <class State>
expected<uint16_t> open_port(caf::actor_system& system, const caf::actor& broker, std::shared_ptr<State> state,
                             const std::string& address, uint16_t port, const caf::strong_actor_ptr& whom,
                             std::set<std::string> interface) {
  const identity& own = state->settings.own;
  if (own.role != peer_role::coordinator)
    return fail(errc::invalid_argument, "{}'s certificate is not a coordinator's: no peer would connect to it",
                own.name);
  CUDAL1_TRY(unique_fd fd, listen_at(address, port));
  caf::io::doorman_ptr door =
      caf::make_counted<tls_doorman<State>>(backend_of(system), std::move(fd), std::move(state));
  const uint16_t chosen = door->port();
  caf::anon_send(broker, caf::publish_atom_v, std::move(door), chosen, whom, std::move(interface));
  return chosen;
}

// The interface of CAF's middleman with connections and ports over TLS. It has a thread of its own, in which it makes
// the handshakes of outgoing connections: a silent server delays other attempts to connect, and nothing else. Unlike
// CAF's it keeps no table of connections: in CAF's, an actor that has just been reported as down can still be found.
template <class State>
class tls_middleman final : public caf::io::middleman_actor::base {
 public:
  using interface_names = std::set<std::string>;
  using remote_endpoint = caf::delegated<caf::node_id, caf::strong_actor_ptr, interface_names>;

  tls_middleman(caf::actor_config& config, caf::actor broker, std::shared_ptr<State> state)
      : caf::io::middleman_actor::base(config), broker_(std::move(broker)), state_(std::move(state)) {
    set_exit_handler([](caf::exit_msg&) {});  // only the transport ends it, by exit_reason::kill
  }
  const char* name() const override { return "tls_middleman"; }
  void on_exit() override { broker_ = nullptr; }

  behavior_type make_behavior() override {
    return {
        [this](caf::publish_atom, uint16_t port, caf::strong_actor_ptr& whom, interface_names& interface,
               std::string& address, bool) { return open(address, port, whom, std::move(interface)); },
        [this](caf::open_atom, uint16_t port, std::string& address, bool) { return open(address, port, nullptr, {}); },
        [this](caf::connect_atom, std::string& host, uint16_t port) { return connect(host, port); },
        [this](caf::unpublish_atom request, caf::actor_addr& whom, uint16_t port) {
          delegate(broker_, request, std::move(whom), port);
        },
        [this](caf::close_atom request, uint16_t port) { delegate(broker_, request, port); },
        [this](caf::spawn_atom request, caf::node_id& node, std::string& type, caf::message& arguments,
               interface_names& interface) {
          delegate(broker_, caf::forward_atom_v, std::move(node), caf::atom("SpawnServ"),
                   caf::make_message(request, std::move(type), std::move(arguments), std::move(interface)));
          return caf::delegated<caf::strong_actor_ptr>();
        },
        [this](caf::get_atom request, caf::node_id& node) {
          delegate(broker_, request, std::move(node));
          return caf::delegated<caf::node_id, std::string, uint16_t>();
        },
    };
  }

 private:
  caf::result<uint16_t> open(const std::string& address, uint16_t port, const caf::strong_actor_ptr& whom,
                             interface_names interface) {
    return reply_or_error(
        name(), [&] { return open_port(system(), broker_, state_, address, port, whom, std::move(interface)); });
  }

  // The broker replies once the server has greeted.
  caf::result<caf::node_id, caf::strong_actor_ptr, interface_names> connect(const std::string& host, uint16_t port) {
    auto made = exceptions_as_errors(name(), [&] { return make_connection(host, port); });
    if (!made) {
      made.error().message = fmt::format("{}:{} cannot be reached: {}", host, port, made.error().message);
      return to_caf(std::move(made).error());
    }
    delegate(broker_, caf::connect_atom_v, std::move(*made), port);
    return remote_endpoint();
  }

  expected<caf::io::scribe_ptr> make_connection(const std::string& host, uint16_t port) {
    const auto deadline = steady_clock::now() + state_->settings.handshake_limit;
    const int stopping = state_->stopping.get();
    CUDAL1_TRY(unique_fd fd, connect_to(host, port, stopping, deadline));
    network::keepalive(fd.get(), true);
    CUDAL1_TRY(tls_session session, tls_session::make(state_->context.get(), fd.get(), side::connecting));
    const auto take = [&](auto step) { return finish(session, step, fd.get(), stopping, deadline); };
    CUDAL1_CHECK(take([&] { return session.handshake(); }));
    CUDAL1_TRY(const peer who, state_->admit(session, side::connecting));
    // The server checks this node's certificate after this side's handshake, and greets if it accepts it. CAF gets the
    // connection with the greeting in it: its timeout for connections counts from the epoch until the first byte.
    if (auto greeted = take([&] { return session.wait_for_data(); }); !greeted)
      return fail_in("the handshake was made, and no greeting came; the server's log says whether it refused this node",
                     std::move(greeted).error());
    state_->connections.enter(fd.get(), stage::first_message);
    state_->connections.set_peer(fd.get(), who);
    return caf::io::scribe_ptr(caf::make_counted<tls_scribe<State>>(
        backend_of(system()), std::move(fd), std::move(session), state_, typename tls_scribe<State>::arrival()));
  }

  caf::actor broker_;
  std::shared_ptr<State> state_;
};

expected<void> check(const caf::actor_system& system, const tls_transport::options& o) {
  if (!system.has_middleman())
    return fail(errc::invalid_argument, "the actor system has not loaded caf::io::middleman");
  if (caf::get_or(system.config(), "middleman.enable-automatic-connections", false))
    return fail(errc::invalid_argument, "middleman.enable-automatic-connections opens a plain-text port");
  if (!o.admit) return fail(errc::invalid_argument, "nothing decides which peers are admitted");
  if (o.most_handshakes == 0 || o.handshake_limit <= std::chrono::seconds(0) ||
      o.handshake_limit > std::chrono::hours(1))
    return fail(errc::invalid_argument, "handshakes need a number above 0 and a time of at most an hour");
  // CAF's header has 32 bits for the size.
  if (o.most_message_bytes < 4096 || o.most_message_bytes > std::numeric_limits<uint32_t>::max())
    return fail(errc::invalid_argument, "a message's limit is between 4096 bytes and 4 GiB");
  return {};
}

}  // namespace

// ---- the transport ------------------------------------------------------------------------------------------------

tls_transport::tls_transport(caf::actor_system& system, std::shared_ptr<shared_state> state, caf::actor broker,
                             caf::io::middleman_actor middleman)
    : system_(system), state_(std::move(state)), broker_(std::move(broker)), middleman_(std::move(middleman)) {}

expected<std::unique_ptr<tls_transport>> tls_transport::start(caf::actor_system& system, options o) {
  CUDAL1_CHECK(check(system, o));
  auto& middleman = system.middleman();
  if (dynamic_cast<network::default_multiplexer*>(&middleman.backend()) == nullptr)
    return fail(errc::invalid_argument, "the actor system's middleman has another backend than CAF's default");
  CUDAL1_TRY(context_ptr context, make_context(o.own));
  unique_fd stopping(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stopping) return fail(errc::infrastructure, "eventfd: {}", std::strerror(errno));
  return exceptions_as_errors("tls_transport", [&]() -> expected<std::unique_ptr<tls_transport>> {
    auto state = std::make_shared<shared_state>(std::move(o), std::move(context), std::move(stopping));
    auto broker = middleman.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
    auto own = system.spawn<tls_middleman<shared_state>, caf::detached + caf::hidden>(broker, state);
    return std::unique_ptr<tls_transport>(
        new tls_transport(system, std::move(state), std::move(broker), std::move(own)));
  });
}

tls_transport::~tls_transport() {
  state_->end();
  caf::scoped_actor self(system_, true);
  for (const uint16_t port : ports_)
    self->request(broker_, close_port_limit, caf::close_atom_v, port).receive([] {}, [](caf::error&) {});
  state_->connections.stop();
  self->send_exit(middleman_, caf::exit_reason::kill);
  self->wait_for(middleman_);
}

expected<uint16_t> tls_transport::publish(const caf::strong_actor_ptr& whom, std::set<std::string> interface,
                                          const std::string& address, uint16_t port) {
  if (!whom) return fail(errc::invalid_argument, "there is no actor to publish");
  CUDAL1_TRY(const uint16_t chosen, open_port(system_, broker_, state_, address, port, whom, std::move(interface)));
  const std::lock_guard guard(ports_mutex_);
  ports_.push_back(chosen);
  return chosen;
}

void tls_transport::close_refused() {
  state_->connections.close_if([this](const peer& who) {
    const auto admitted = state_->ask(who);
    if (!admitted) spdlog::warn("the connection of {} is closed: {}", who.name, admitted.error().message);
    return !admitted;
  });
}

}  // namespace cudal1
