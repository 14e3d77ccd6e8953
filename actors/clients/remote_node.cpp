#include "actors/clients/remote_node.hpp"

#include <chrono>
#include <utility>

#include "actors/transport/tls_pump.hpp"
#include "actors/transport/tls_steps.hpp"
#include "config/base/deadline.hpp"
#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

constexpr std::chrono::seconds connect_limit{10};
constexpr int not_stopping = -1;

}  // namespace

expected<std::shared_ptr<const remote_node>> remote_node::make(const std::string& address, const identity& own) {
  CUDAL1_TRY(network_address where, read_address(address));
  if (own.role != peer_role::client)
    return fail(
        errc::invalid_argument,
        "the certificate of {} has the role {}, not client; on the coordinator's machine, `cudal1 cluster add NAME "
        "--client` makes a client's",
        own.name, enum_name(own.role));
  CUDAL1_TRY(tls_context context, make_tls_context(own));
  return std::shared_ptr<const remote_node>(new remote_node(address, std::move(where), std::move(context)));
}

expected<node_client> remote_node::connect() const {
  const auto end = deadline_in(connect_limit);
  auto fd = connect_to(where_.host, where_.port, not_stopping, end);
  if (!fd)
    return fail(
        errc::infrastructure,
        "{} cannot be reached: {}; is the coordinator running there (`cudal1-node --listen`), and the port open?",
        address_, fd.error().message);
  CUDAL1_TRY(tls_session session, tls_session::make(context_.get(), fd->get(), tls_side::connecting));
  if (auto made = finish_step(
          session, [&] { return session.handshake(); }, fd->get(), not_stopping, end);
      !made)
    return fail(errc::infrastructure,
                "{} does not answer as the coordinator of this client's cluster: {}; check the port, and that the "
                "certificate is of this cluster",
                address_, made.error().message);
  const certificate_ptr certificate = session.peer_certificate();
  CUDAL1_TRY(const peer who, peer_of(certificate.get()));
  if (who.role != peer_role::coordinator)
    return fail(errc::infrastructure, "{} is {}, a {} and not a coordinator", address_, who.name, enum_name(who.role));
  CUDAL1_TRY(auto started, tls_pump::start({std::move(*fd), std::move(session), nullptr}));
  return node_client::over(std::move(started.local), std::move(started.pump));
}

}  // namespace cudal1
