// The HTTP interface of a node, as a part of its process.
#pragma once

#include <memory>

#include "actors/agent/node_options.hpp"
#include "actors/messages/interfaces.hpp"
#include "tools/serve/evaluation_server.hpp"

namespace cudal1 {

// Null where no address is given. Errors: those of evaluation_server::listen.
expected<std::unique_ptr<serve::evaluation_server>> serve_evaluations(const serve::serving_options& serving,
                                                                      const node_options& o, caf::actor_system& system,
                                                                      const coordinator_actor& node, int devices);

}  // namespace cudal1
