#include "actors/agent/cluster_link.hpp"

#include <set>

#include <caf/io/all.hpp>

#include "actors/transport/tls_transport.hpp"

namespace cudal1 {

void connect_to_coordinator(agent_actor::pointer self, const coordinator_address& to, duration timeout,
                            const std::function<void(expected<coordinator_actor>)>& then) {
  self->request(to.transport->middleman(), timeout, caf::connect_atom::value, to.where.host, to.where.port)
      .then(
          [then](const caf::node_id&, caf::strong_actor_ptr& found, const std::set<std::string>&) {
            log_exceptions("agent", [&] {
              if (found)
                then(caf::actor_cast<coordinator_actor>(found));
              else
                then(fail(errc::infrastructure, "there is no coordinator at that port"));
            });
          },
          [then](const caf::error& e) { log_exceptions("agent", [&] { then(tl::unexpected<error>(from_caf(e))); }); });
}

}  // namespace cudal1
