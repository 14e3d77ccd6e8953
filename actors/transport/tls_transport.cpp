#include "actors/transport/tls_transport.hpp"

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include <caf/all.hpp>
#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>

#include "actors/messages/caf_layer.hpp"
#include "actors/transport/tls_middleman.hpp"
#include "actors/transport/tls_session.hpp"
#include "actors/transport/transport_state.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::seconds close_port_limit{2};

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

tls_transport::tls_transport(caf::actor_system& system, std::shared_ptr<transport_state> state, caf::actor broker,
                             caf::io::middleman_actor middleman)
    : system_(system), state_(std::move(state)), broker_(std::move(broker)), middleman_(std::move(middleman)) {}

expected<std::unique_ptr<tls_transport>> tls_transport::start(caf::actor_system& system, options o) {
  CUDAL1_CHECK(check(system, o));
  auto& middleman = system.middleman();
  auto* const backend = dynamic_cast<caf::io::network::default_multiplexer*>(&middleman.backend());
  if (backend == nullptr)
    return fail(errc::invalid_argument, "the actor system's middleman has another backend than CAF's default");
  CUDAL1_TRY(tls_context context, make_tls_context(o.own));
  unique_fd stopping(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stopping) return fail(errc::infrastructure, "eventfd: {}", std::strerror(errno));
  return exceptions_as_errors("tls_transport", [&]() -> expected<std::unique_ptr<tls_transport>> {
    auto state = std::make_shared<transport_state>(std::move(o), std::move(context), std::move(stopping));
    backend->post([] { ::pthread_setname_np(::pthread_self(), "connections"); });
    auto broker = middleman.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
    auto own = spawn_middleman(system, broker, state);
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
