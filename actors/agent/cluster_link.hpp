// How an agent reaches the coordinator of another machine.
#pragma once

#include <functional>
#include <memory>

#include "actors/messages/interfaces.hpp"
#include "actors/transport/network_address.hpp"

namespace cudal1 {

class tls_transport;

struct coordinator_address {
  network_address where;
  std::shared_ptr<tls_transport> transport;
};

// Connects once. `then` runs in the agent's actor, within that time.
void connect_to_coordinator(agent_actor::pointer self, const coordinator_address& to, duration timeout,
                            const std::function<void(expected<coordinator_actor>)>& then);

}  // namespace cudal1
