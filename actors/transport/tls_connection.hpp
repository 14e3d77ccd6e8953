// Connections and ports in CAF's I/O loop. Internal to tls_transport.
#pragma once

#include <memory>

#include <caf/io/all.hpp>
#include <caf/io/network/default_multiplexer.hpp>

#include "actors/transport/tls_session.hpp"
#include "actors/transport/transport_state.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// A connection whose handshake has been made and whose peer is admitted. Takes the descriptor.
caf::io::scribe_ptr make_scribe(caf::io::network::default_multiplexer& backend, unique_fd fd, tls_session session,
                                std::shared_ptr<transport_state> state);

// Accepts connections at a socket that listens, and hands them to CAF once their peers are admitted. Takes the
// descriptor.
caf::io::doorman_ptr make_doorman(caf::io::network::default_multiplexer& backend, unique_fd fd,
                                  std::shared_ptr<transport_state> state);

}  // namespace cudal1
