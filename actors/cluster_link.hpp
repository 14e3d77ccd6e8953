// How an agent reaches the coordinator of another machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/interfaces.hpp"

namespace cudal1 {

class tls_transport;

struct network_address {
  std::string host;
  uint16_t port = 0;
};
// "gpu7:4977", "10.0.0.4:4977", "[::1]:4977"; errc::invalid_argument.
expected<network_address> read_address(const std::string& text);

struct coordinator_address {
  network_address where;
  std::shared_ptr<tls_transport> transport;
};

// Connects once. `then` runs in the agent's actor, within that time.
void connect_to_coordinator(agent_actor::pointer self, const coordinator_address& to, duration timeout,
                            const std::function<void(expected<coordinator_actor>)>& then);

}  // namespace cudal1
