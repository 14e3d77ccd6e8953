// Mutual TLS for the connections between an actor system and those of other machines.
//
// CAF's own ports are plain text and its TLS module is not used: an unauthenticated peer could end actors or the
// process. Here CAF hears of a connection only after its peer has proven to hold a certificate of the cluster's
// authority and `admit` has accepted it; those of the command line's users are not for CAF (serve_client). The holder
// of a certificate is trusted with everything that CAF's protocol can do, within a limit on the size of a message.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <caf/actor_control_block.hpp>
#include <caf/fwd.hpp>
#include <caf/io/middleman_actor.hpp>

#include "actors/transport/certificates.hpp"
#include "actors/transport/tls_client.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

struct transport_state;

// Thread-safe. Must be destroyed before the actor system; that closes its ports and connections.
class tls_transport {
 public:
  struct options {
    identity own;
    // Asked after the handshake, and by close_refused(); an error closes the connection before any byte reaches CAF.
    // Called from the I/O thread for incoming connections and from the middleman's thread for outgoing ones, at the
    // same time: it must be thread-safe, and must not block or call this transport. Must check the peer's role: an
    // outgoing connection's peer is always a coordinator, an incoming one's can have any role.
    std::function<expected<void>(const peer&)> admit;
    // Gets the connections of clients (peer_role::client), of which CAF never hears; without it they are closed. Called
    // from the I/O thread: must not block or call this transport.
    std::function<void(tls_client)> serve_client;
    std::size_t most_handshakes = 64;  // incoming ones at a time; one more closes the oldest
    // For a handshake and the first message after it, for an attempt to connect, and for what is unsent at a close.
    std::chrono::seconds handshake_limit{10};
    std::size_t most_message_bytes = std::size_t{64} << 20;  // serialised; a longer one closes its connection
  };

  // `system` has loaded caf::io::middleman and does not connect automatically (that would open a plain-text port).
  // Errors: invalid_argument (the system or an option), infrastructure (OpenSSL or the operating system).
  static expected<std::unique_ptr<tls_transport>> start(caf::actor_system& system, options o);
  ~tls_transport();
  tls_transport(const tls_transport&) = delete;
  tls_transport& operator=(const tls_transport&) = delete;

  // Lets peers connect to `whom`. `address` is an address or a host name of this machine, "0.0.0.0" or "::" for all;
  // port 0 chooses one. Returns the port. Errors: invalid_argument (no actor, no such address, or this node's
  // certificate is not a coordinator's), io_error (the address is in use, or not of this machine).
  expected<uint16_t> publish(const caf::strong_actor_ptr& whom, std::set<std::string> interface,
                             const std::string& address, uint16_t port);

  // Answers (caf::connect_atom, host, port) over TLS, with an error (see from_caf) at the latest after handshake_limit
  // and the time that the name service takes; one attempt at a time. CAF's other requests work on this transport too.
  caf::io::middleman_actor middleman() const { return middleman_; }

  // Asks `admit` again about the peers of all connections and closes those that it refuses, as after a revocation.
  void close_refused();

 private:
  tls_transport(caf::actor_system& system, std::shared_ptr<transport_state> state, caf::actor broker,
                caf::io::middleman_actor middleman);

  caf::actor_system& system_;
  std::shared_ptr<transport_state> state_;
  caf::actor broker_;
  caf::io::middleman_actor middleman_;
  std::mutex ports_mutex_;
  std::vector<uint16_t> ports_;
};

}  // namespace cudal1
