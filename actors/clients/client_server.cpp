#include "actors/clients/client_server.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "actors/clients/client_connection.hpp"
#include "actors/transport/tls_pump.hpp"

namespace cudal1 {

namespace {

constexpr int most_connections = 32;

tl::unexpected<error> system_error(const std::string& what) {
  return fail(errc::io_error, "{}: {}", what, std::strerror(errno));
}

error too_many_clients() {
  return {errc::refused, fmt::format("this node serves {} clients already", most_connections)};
}

}  // namespace

client_server::client_server(caf::actor_system& system, client_server_setup setup)
    : system_(system), setup_(std::move(setup)), stop_(::eventfd(0, EFD_CLOEXEC)) {
  remove_unfinished_blobs(setup_.data);
}

expected<void> client_server::listen() {
  const std::string path = setup_.data + "/" + std::string(node_socket_name);
  ::unlink(path.c_str());
  CUDAL1_TRY(const node_address where, address_of_node(setup_.data));
  listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener_ || !stop_) return system_error("cannot create the node's socket");
  // The file gets its mode from the socket, so no other user can connect at any time.
  if (::fchmod(listener_.get(), 0600) != 0) return system_error("cannot protect the node's socket");
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&where.address), sizeof where.address) != 0)
    return system_error("cannot bind " + path);
  if (::chmod(path.c_str(), 0600) != 0) return system_error("cannot protect " + path);
  if (::listen(listener_.get(), 16) != 0) return system_error("cannot listen on " + path);
  acceptor_ = std::thread([this] { accept_clients(); });
  return {};
}

void client_server::stop() {
  {
    const std::lock_guard guard(workers_mutex_);
    stopped_ = true;
  }
  const uint64_t one = 1;
  if (stop_ && ::write(stop_.get(), &one, sizeof one) != sizeof one)
    spdlog::error("the threads of the node's clients cannot be stopped");
  if (acceptor_.joinable()) acceptor_.join();
  for (auto& w : workers_)
    w.thread.join();
  workers_.clear();
  if (listener_) ::unlink((setup_.data + "/" + std::string(node_socket_name)).c_str());
  listener_.reset();
}

bool client_server::start_worker(std::function<void()> work) {
  const std::lock_guard guard(workers_mutex_);
  workers_.remove_if([](worker& w) {
    if (!*w.finished) return false;
    w.thread.join();
    return true;
  });
  if (stopped_ || connections_ >= most_connections) return false;
  ++connections_;
  auto finished = std::make_shared<std::atomic<bool>>(false);
  workers_.push_back({std::thread([this, finished, work = std::move(work)] {
                        log_exceptions("client", work);
                        --connections_;
                        *finished = true;
                      }),
                      finished});
  return true;
}

void client_server::accept_clients() {
  for (;;) {
    pollfd waiting[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0 && errno != EINTR) return spdlog::error("poll on the node's socket failed");
    if (waiting[1].revents != 0) return;
    const auto client =
        std::make_shared<unique_fd>(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!*client) continue;
    if (start_worker([this, client] { client_connection(*this, std::move(*client), std::nullopt).run(); })) continue;
    const auto full = encode(refusal(too_many_clients()));
    if (::send(client->get(), full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
      spdlog::debug("a client left");
  }
}

void client_server::serve_remote(tls_client client) {
  const auto shared = std::make_shared<tls_client>(std::move(client));
  if (start_worker([this, shared] { talk_to(std::move(*shared)); })) return;
  spdlog::warn("a connection of {} is closed: {}", shared->who.name, too_many_clients().message);
  const auto full = encode(refusal(too_many_clients()));
  shared->session.write_some(full.data(), full.size());
}

void client_server::talk_to(tls_client client) {
  auto pump = tls_pump::start({std::move(client.fd), std::move(client.session), std::move(client.entry)});
  if (!pump) return spdlog::error("a connection of {} is closed: {}", client.who.name, pump.error().message);
  client_connection connection(*this, std::move(pump->local), client.who);
  if (client.refusal)
    connection.turn_away(*client.refusal);
  else
    connection.run();
}

}  // namespace cudal1
