// The ports and outgoing connections of a transport. Internal to tls_transport.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include <caf/all.hpp>
#include <caf/io/middleman_actor.hpp>

#include "actors/transport/transport_state.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

// Opens a port through which peers reach `whom`, or just the node where it is null. Returns the port. Errors: as of
// tls_transport::publish.
expected<uint16_t> open_port(caf::actor_system& system, const caf::actor& broker,
                             std::shared_ptr<transport_state> state, const std::string& address, uint16_t port,
                             const caf::strong_actor_ptr& whom, std::set<std::string> interface);

// An actor with the interface of CAF's middleman, whose connections and ports have TLS. The system's middleman has
// CAF's default backend.
caf::io::middleman_actor spawn_middleman(caf::actor_system& system, const caf::actor& broker,
                                         std::shared_ptr<transport_state> state);

}  // namespace cudal1
