#include "actors/transport/tls_connection.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/io/basp/header.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/stream.hpp>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

namespace cudal1 {

namespace {

namespace network = caf::io::network;

// Buffers above this size are freed after a message instead of being kept for the next one.
constexpr std::size_t most_kept_buffer_bytes = 1 << 20;

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

// How CAF's stream reads and writes; "success" without bytes means that the socket would block.
struct stream_policy {
  static network::rw_state state_of(std::optional<std::size_t> moved, std::size_t& bytes) {
    bytes = moved.value_or(0);
    return moved ? network::rw_state::success : network::rw_state::failure;
  }
  network::rw_state read_some(std::size_t& bytes, network::native_socket, void* to, std::size_t most) const {
    return state_of(session.read_some(to, most), bytes);
  }
  network::rw_state write_some(std::size_t& bytes, network::native_socket, const void* from, std::size_t most) const {
    return state_of(session.write_some(from, most), bytes);
  }
  // Bytes that OpenSSL has taken from the socket do not wake the I/O thread again.
  bool must_read_more(network::native_socket, std::size_t threshold) const { return session.has_buffered(threshold); }

  tls_session& session;
};

// Everything here runs in the I/O thread, except the constructors.
class tls_scribe final : public caf::io::scribe {
 public:
  // What becomes of a connection whose peer is admitted; false if nobody wants it.
  using arrival = std::function<bool(caf::io::scribe_ptr)>;

  // Takes the descriptor. An accepted connection has an `arrived`, and its handshake is still to be made; CAF hears of
  // it by `arrived`. Without one the handshake has been made.
  tls_scribe(network::default_multiplexer& backend, unique_fd fd, tls_session session,
             std::shared_ptr<transport_state> state, arrival arrived)
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
      stream_policy policy{owner_.session_};
      handle_event_impl(op, policy);
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
    const auto known = transport_state::peer_at(session_);
    const auto who = known ? state_->admit(session_, tls_side::accepting) : known;
    if (known && known->role == peer_role::client) {
      hand_over(*known, who ? std::nullopt : std::optional(who.error()));
      return true;
    }
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

  // The connection of a client goes on over another descriptor. This one is closed, which does not end it.
  void hand_over(const peer& who, std::optional<error> refusal) {
    unique_fd fd(::fcntl(stream_.fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd || !state_->settings.serve_client) {
      spdlog::warn("a connection of {} is closed: {}", who.name, fd ? "no clients are served here" : "no descriptor");
      return break_off();
    }
    if (refusal) spdlog::warn("a connection of {} is refused: {}", who.name, refusal->message);
    session_.move_to(fd.get());
    state_->connections.leave(stream_.fd());  // its limit of time is not the client's
    const int number = fd.get();
    state_->connections.enter(number, refusal ? stage::closing : stage::open);
    state_->connections.set_peer(number, who);
    std::shared_ptr<void> entry(nullptr, [state = state_, number](void*) { state->connections.leave(number); });
    state_->serve({who, std::move(refusal), std::move(fd), std::move(session_), std::move(entry)});
    session_.break_off();
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

  std::shared_ptr<transport_state> state_;
  arrival arrived_;
  bool launched_ = false;
  int reads_ = 0;
  tls_session session_;
  tls_stream stream_;  // closes the descriptor
};

// Accepts connections, and hands them to CAF once their peers are admitted.
class tls_doorman final : public network::doorman_impl {
 public:
  tls_doorman(network::default_multiplexer& backend, unique_fd fd, std::shared_ptr<transport_state> state)
      : doorman_impl(backend, fd.release()), state_(std::move(state)) {}

  bool new_connection() override {
    unique_fd fd(acceptor_.accepted_socket());
    if (detached()) return false;
    network::nonblocking(fd.get(), true);
    network::keepalive(fd.get(), true);
    auto session = tls_session::make(state_->context.get(), fd.get(), tls_side::accepting);
    if (!session) {
      spdlog::error("a connection is dropped: {}", session.error().message);
      return true;
    }
    state_->connections.enter(fd.get(), stage::handshake);
    auto& backend = acceptor_.backend();
    const auto arrived = [door = caf::intrusive_ptr<tls_doorman>(this)](caf::io::scribe_ptr scribe) {
      return door->announce(std::move(scribe));
    };
    caf::make_counted<tls_scribe>(backend, std::move(fd), std::move(*session), state_, arrived)->start();
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

  std::shared_ptr<transport_state> state_;
};

}  // namespace

caf::io::scribe_ptr make_scribe(network::default_multiplexer& backend, unique_fd fd, tls_session session,
                                std::shared_ptr<transport_state> state) {
  return caf::make_counted<tls_scribe>(backend, std::move(fd), std::move(session), std::move(state),
                                       tls_scribe::arrival());
}

caf::io::doorman_ptr make_doorman(network::default_multiplexer& backend, unique_fd fd,
                                  std::shared_ptr<transport_state> state) {
  return caf::make_counted<tls_doorman>(backend, std::move(fd), std::move(state));
}

}  // namespace cudal1
