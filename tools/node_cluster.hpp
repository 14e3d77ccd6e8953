// What a node's process does about other machines: CAF's network part, and mutual TLS with the cluster's certificates.
#pragma once

#include <memory>
#include <string>

#include "actors/agent/cluster_link.hpp"
#include "actors/clients/client_server.hpp"
#include "actors/coordinator/coordinator_actor.hpp"
#include "actors/transport/tls_transport.hpp"

namespace cudal1 {

// Loads CAF's network part. To be called before the actor system is made.
void use_network(caf::actor_system_config& config);

// Lets machines with certificates of DATA/cluster join at an address, as in "0.0.0.0:4977", and clients talk to
// `clients`, which outlives the transport. Revoked ones are closed by close_refused(). Errors: no certificates (the
// message says how to make them), or the address cannot be used.
expected<std::shared_ptr<tls_transport>> open_cluster(caf::actor_system& system, const std::string& data,
                                                      const std::string& address, const coordinator_actor& coordinator,
                                                      client_server& clients);

// The connections of a machine that joins a coordinator.
expected<std::shared_ptr<tls_transport>> transport_of_agent(caf::actor_system& system, identity own);

}  // namespace cudal1
