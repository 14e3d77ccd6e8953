#include "actors/transport/tls_middleman.hpp"

#include <chrono>
#include <utility>

#include "actors/messages/caf_layer.hpp"
#include "actors/transport/tcp_sockets.hpp"
#include "actors/transport/tls_connection.hpp"
#include "actors/transport/tls_steps.hpp"

namespace cudal1 {

namespace {

namespace network = caf::io::network;
using std::chrono::steady_clock;

network::default_multiplexer& backend_of(caf::actor_system& system) {
  return static_cast<network::default_multiplexer&>(system.middleman().backend());  // start() has checked it
}

// The interface of CAF's middleman with connections and ports over TLS. It has a thread of its own, in which it makes
// the handshakes of outgoing connections: a silent server delays other attempts to connect, and nothing else. Unlike
// CAF's it keeps no table of connections: in CAF's, an actor that has just been reported as down can still be found.
class tls_middleman final : public caf::io::middleman_actor::base {
 public:
  using interface_names = std::set<std::string>;
  using remote_endpoint = caf::delegated<caf::node_id, caf::strong_actor_ptr, interface_names>;

  tls_middleman(caf::actor_config& config, caf::actor broker, std::shared_ptr<transport_state> state)
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
    CUDAL1_TRY(tls_session session, tls_session::make(state_->context.get(), fd.get(), tls_side::connecting));
    const auto take = [&](auto step) { return finish_step(session, step, fd.get(), stopping, deadline); };
    CUDAL1_CHECK(take([&] { return session.handshake(); }));
    CUDAL1_TRY(const peer who, state_->admit(session, tls_side::connecting));
    // The server checks this node's certificate after this side's handshake, and greets if it accepts it. CAF gets the
    // connection with the greeting in it: its timeout for connections counts from the epoch until the first byte.
    if (auto greeted = take([&] { return session.wait_for_data(); }); !greeted)
      return fail_in("the handshake was made, and no greeting came; the server's log says whether it refused this node",
                     std::move(greeted).error());
    state_->connections.enter(fd.get(), connection_table::stage::first_message);
    state_->connections.set_peer(fd.get(), who);
    return make_scribe(backend_of(system()), std::move(fd), std::move(session), state_);
  }

  caf::actor broker_;
  std::shared_ptr<transport_state> state_;
};

}  // namespace

expected<uint16_t> open_port(caf::actor_system& system, const caf::actor& broker,
                             std::shared_ptr<transport_state> state, const std::string& address, uint16_t port,
                             const caf::strong_actor_ptr& whom, std::set<std::string> interface) {
  const identity& own = state->settings.own;
  if (own.role != peer_role::coordinator)
    return fail(errc::invalid_argument, "{}'s certificate is not a coordinator's: no peer would connect to it",
                own.name);
  CUDAL1_TRY(unique_fd fd, listen_at(address, port));
  caf::io::doorman_ptr door = make_doorman(backend_of(system), std::move(fd), std::move(state));
  const uint16_t chosen = door->port();
  caf::anon_send(broker, caf::publish_atom_v, std::move(door), chosen, whom, std::move(interface));
  return chosen;
}

caf::io::middleman_actor spawn_middleman(caf::actor_system& system, const caf::actor& broker,
                                         std::shared_ptr<transport_state> state) {
  return system.spawn<tls_middleman, caf::detached + caf::hidden>(broker, std::move(state));
}

}  // namespace cudal1
