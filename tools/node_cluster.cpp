#include "tools/node_cluster.hpp"

#include <random>

#include <caf/detail/get_root_uuid.hpp>
#include <caf/io/all.hpp>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "actors/transport/certificate_authority.hpp"

namespace cudal1 {

namespace {

// Of CAF's own watch over connections: the membership's heartbeats are quicker, and these alike on every machine.
constexpr std::chrono::seconds heartbeat{2}, silence{20};

}  // namespace

void use_network(caf::actor_system_config& config) {
  config.load<caf::io::middleman>();
  config.set("middleman.heartbeat-interval", caf::timespan(heartbeat));
  config.set("middleman.connection-timeout", caf::timespan(silence));
}

expected<std::shared_ptr<tls_transport>> open_cluster(caf::actor_system& system, const std::string& data,
                                                      const std::string& address, const coordinator_actor& coordinator,
                                                      client_server& clients) {
  CUDAL1_TRY(const network_address where, read_address(address));
  const std::string folder = cluster_folder(data);
  auto own = read_identity(folder + "/coordinator.pem");
  if (!own && own.error().code == errc::not_found)
    return fail(errc::invalid_argument,
                "other machines can join only with certificates, and {} has none: `cudal1 cluster init` makes them",
                folder);
  if (!own) return tl::unexpected<error>(std::move(own).error());
  tls_transport::options o;
  o.own = std::move(*own);
  o.admit = [revoked = std::make_shared<revocations>(folder)](const peer& p) -> expected<void> {
    if (p.role == peer_role::coordinator)
      return fail(errc::refused, "{} is a {}, and only agents and clients connect", p.name, enum_name(p.role));
    if (revoked->is_revoked(p.serial)) return fail(errc::refused, "the certificate of {} is revoked", p.name);
    return {};
  };
  o.serve_client = [&clients](tls_client client) { clients.serve_remote(std::move(client)); };
  CUDAL1_TRY(std::shared_ptr<tls_transport> transport, tls_transport::start(system, std::move(o)));
  CUDAL1_TRY(const uint16_t port, transport->publish(caf::actor_cast<caf::strong_actor_ptr>(coordinator),
                                                     system.message_types(coordinator), where.host, where.port));
  spdlog::info("other machines can join at {}, port {}", where.host, port);
  return transport;
}

expected<std::shared_ptr<tls_transport>> transport_of_agent(caf::actor_system& system, identity own) {
  tls_transport::options o;
  o.own = std::move(own);
  o.admit = [](const peer& p) -> expected<void> {
    if (p.role == peer_role::coordinator) return {};
    return fail(errc::refused, "{} is a {}, not a coordinator", p.name, enum_name(p.role));
  };
  CUDAL1_TRY(std::shared_ptr<tls_transport> transport, tls_transport::start(system, std::move(o)));
  return transport;
}

}  // namespace cudal1

// In place of CAF's own, which is made of the machine's addresses and disks: two containers of one machine would have
// the same, and CAF takes them for one node if their process ids agree too.
namespace caf::detail {

std::string get_root_uuid() {
  std::random_device random;
  std::string text;
  for (int i = 0; i < 4; ++i)
    text += fmt::format("{:08x}", random());
  return text;
}

}  // namespace caf::detail
