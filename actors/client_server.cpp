#include "actors/client_server.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/client_connection.hpp"

namespace cudal1 {

namespace {

constexpr int most_connections = 32;

tl::unexpected<error> system_error(const std::string& what) {
  return fail(errc::io_error, "{}: {}", what, std::strerror(errno));
}

}  // namespace

expected<std::unique_ptr<client_server>> client_server::listen(caf::actor_system& system, client_server_setup setup) {
  std::unique_ptr<client_server> server(new client_server(system, std::move(setup)));
  const std::string path = server->setup_.data + "/" + std::string(node_socket_name);
  ::unlink(path.c_str());
  CUDAL1_TRY(const node_address where, address_of_node(server->setup_.data));
  server->listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  server->stop_.reset(::eventfd(0, EFD_CLOEXEC));
  if (!server->listener_ || !server->stop_) return system_error("cannot create the node's socket");
  // The file gets its mode from the socket, so no other user can connect at any time.
  if (::fchmod(server->listener_.get(), 0600) != 0) return system_error("cannot protect the node's socket");
  if (::bind(server->listener_.get(), reinterpret_cast<const sockaddr*>(&where.address), sizeof where.address) != 0)
    return system_error("cannot bind " + path);
  if (::chmod(path.c_str(), 0600) != 0) return system_error("cannot protect " + path);
  if (::listen(server->listener_.get(), 16) != 0) return system_error("cannot listen on " + path);
  server->acceptor_ = std::thread([s = server.get()] { s->accept_clients(); });
  return server;
}

client_server::~client_server() {
  const uint64_t one = 1;
  if (stop_ && ::write(stop_.get(), &one, sizeof one) != sizeof one)
    spdlog::error("the threads of the node's socket cannot be stopped");
  if (acceptor_.joinable()) acceptor_.join();
  for (auto& w : workers_)
    w.thread.join();
  ::unlink((setup_.data + "/" + std::string(node_socket_name)).c_str());
}

void client_server::accept_clients() {
  for (;;) {
    pollfd waiting[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0 && errno != EINTR) return spdlog::error("poll on the node's socket failed");
    if (waiting[1].revents != 0) return;
    workers_.remove_if([](worker& w) {
      if (!*w.finished) return false;
      w.thread.join();
      return true;
    });
    unique_fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!client) continue;
    if (connections_ >= most_connections) {
      const auto full =
          encode(refusal({errc::refused, fmt::format("this node serves {} clients already", most_connections)}));
      if (::send(client.get(), full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        spdlog::debug("a client left");
      continue;
    }
    ++connections_;
    auto finished = std::make_shared<std::atomic<bool>>(false);
    workers_.push_back({std::thread([this, finished, c = std::move(client)]() mutable {
                          log_exceptions("client", [&] { serve(std::move(c)); });
                          --connections_;
                          *finished = true;
                        }),
                        finished});
  }
}

void client_server::serve(unique_fd client) {
  client_connection(*this, std::move(client)).run();
}

}  // namespace cudal1
