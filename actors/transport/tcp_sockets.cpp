#include "actors/transport/tcp_sockets.hpp"

#include <cerrno>
#include <cstring>
#include <memory>

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

namespace cudal1 {

using std::chrono::steady_clock;

namespace {

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

}  // namespace

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

}  // namespace cudal1
