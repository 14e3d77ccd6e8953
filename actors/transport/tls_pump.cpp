#include "actors/transport/tls_pump.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include "config/base/deadline.hpp"

namespace cudal1 {

namespace {

constexpr std::size_t part_bytes = std::size_t{64} << 10;
constexpr std::chrono::seconds linger{10};

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

expected<tls_pump::started> tls_pump::start(connection c) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return fail(errc::infrastructure, "cannot create a pair of sockets: {}", std::strerror(errno));
  unique_fd outer(ends[0]), inner(ends[1]);
  watch_connection(c.remote.get());
  std::unique_ptr<tls_pump> pump(new tls_pump(std::move(c), std::move(inner)));
  try {
    pump->thread_ = std::thread([p = pump.get()] { p->run(); });
  } catch (const std::system_error& e) {
    return fail(errc::infrastructure, "no thread for a connection: {}", e.what());
  }
  ::pthread_setname_np(pump->thread_.native_handle(), "tls-pump");
  return started{std::move(outer), std::move(pump)};
}

tls_pump::~tls_pump() {
  if (thread_.joinable()) thread_.join();
}

void tls_pump::run() {
  deadline end = deadline::max();
  while (!is_finished()) {
    // Each that has something to do does it, so that neither direction waits for the other.
    const bool wrote_local = write_local(), wrote_remote = write_remote();
    const bool got_remote = read_remote(), got_local = read_local();
    if ((outward_.ended || inward_.ended) && end == deadline::max()) end = deadline_in(linger);
    if (wrote_local || wrote_remote || got_remote || got_local) continue;
    if (end <= std::chrono::steady_clock::now()) break;
    if (!is_finished()) wait_until_ready(end == deadline::max() ? -1 : milliseconds_until(end));
  }
  if (outward_.is_empty()) remote_.session.say_goodbye();
  local_.reset();
  remote_.guard.reset();
  remote_.remote.reset();
}

bool tls_pump::is_finished() const {
  return (outward_.ended && outward_.is_empty()) || (inward_.ended && inward_.is_empty());
}

bool tls_pump::read_remote() {
  if (inward_.ended || !inward_.is_empty()) return false;
  inward_.bytes.resize(part_bytes);
  const auto got = remote_.session.read_some(inward_.bytes.data(), part_bytes);
  inward_.bytes.resize(got.value_or(0));
  inward_.sent = 0;
  inward_.ended = !got;
  return got.value_or(0) > 0;
}

bool tls_pump::read_local() {
  if (outward_.ended || !outward_.is_empty()) return false;
  outward_.bytes.resize(part_bytes);
  const auto got = ::recv(local_.get(), outward_.bytes.data(), part_bytes, 0);
  const bool blocked = got < 0 && would_block();
  outward_.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  outward_.sent = 0;
  outward_.ended = got == 0 || (got < 0 && !blocked);
  return got > 0;
}

bool tls_pump::write_remote() {
  if (outward_.is_empty()) return false;
  const auto rest = outward_.rest();
  const auto sent = remote_.session.write_some(rest.data(), rest.size());
  if (!sent) {  // nobody reads it
    outward_.sent = outward_.bytes.size();
    outward_.ended = true;
    return true;
  }
  outward_.sent += *sent;
  return *sent > 0;
}

bool tls_pump::write_local() {
  if (inward_.is_empty()) return false;
  const auto rest = inward_.rest();
  const auto sent = ::send(local_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (sent < 0 && !would_block()) {
    inward_.sent = inward_.bytes.size();
    inward_.ended = true;
    return true;
  }
  if (sent > 0) inward_.sent += static_cast<std::size_t>(sent);
  return sent > 0;
}

void tls_pump::wait_until_ready(int timeout_ms) {
  const auto events = [](const flow& from, const flow& to) {
    return static_cast<short>((!from.ended && from.is_empty() ? POLLIN : 0) | (!to.is_empty() ? POLLOUT : 0));
  };
  pollfd waiting[2] = {{remote_.remote.get(), events(inward_, outward_), 0},
                       {local_.get(), events(outward_, inward_), 0}};
  // A socket without events would still report a hang-up, again and again.
  for (auto& one : waiting)
    if (one.events == 0) one.fd = -1;
  ::poll(waiting, 2, timeout_ms);
}

void watch_connection(int tcp_socket) {
  const auto set = [tcp_socket](int level, int name, int value) {
    ::setsockopt(tcp_socket, level, name, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
  set(IPPROTO_TCP, TCP_NODELAY, 1);
}

}  // namespace cudal1
