#include "actors/cluster_link.hpp"

#include <charconv>
#include <set>

#include <caf/io/all.hpp>

#include "actors/tls_transport.hpp"

namespace cudal1 {

expected<network_address> read_address(const std::string& text) {
  const auto colon = text.rfind(':');
  network_address a;
  if (colon != std::string::npos) {
    a.host = text.substr(0, colon);
    if (a.host.size() > 2 && a.host.front() == '[' && a.host.back() == ']')
      a.host = a.host.substr(1, a.host.size() - 2);
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + colon + 1, end, a.port);
    if (read.ec == std::errc() && read.ptr == end && !a.host.empty()) return a;
  }
  return fail(errc::invalid_argument, "\"{}\" is not an address and a port, as in gpu7:4977 or [::1]:4977", text);
}

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
