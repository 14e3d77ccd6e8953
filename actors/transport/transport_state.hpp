// What a transport's connections, ports and middleman share. Internal to tls_transport.
#pragma once

#include <memory>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include <sys/eventfd.h>

#include "actors/messages/caf_layer.hpp"
#include "actors/transport/connection_table.hpp"
#include "actors/transport/tls_session.hpp"
#include "actors/transport/tls_transport.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

// Thread-safe.
struct transport_state {
  transport_state(tls_transport::options o, tls_context c, unique_fd s)
      : settings(std::move(o)),
        context(std::move(c)),
        stopping(std::move(s)),
        connections(settings.most_handshakes, settings.handshake_limit) {}

  // Who is at the other side, if it may be there.
  expected<peer> admit(const tls_session& session, tls_side which) const {
    CUDAL1_TRY(peer who, peer_at(session));
    if (which == tls_side::connecting && who.role != peer_role::coordinator)
      return fail(errc::refused, "{} is not a coordinator", who.name);
    CUDAL1_CHECK(ask(who));
    return who;
  }
  static expected<peer> peer_at(const tls_session& session) {
    const certificate_ptr certificate = session.peer_certificate();
    return peer_of(certificate.get());
  }
  expected<void> ask(const peer& who) const {
    const std::shared_lock guard(asking_);
    if (ended_) return fail(errc::cancelled, "this node is stopping");
    return exceptions_as_errors("the admission of a peer", [&] { return settings.admit(who); });
  }

  // False if nobody serves clients.
  bool serve(tls_client client) const {
    const std::shared_lock guard(asking_);
    if (ended_ || !settings.serve_client) return false;
    return exceptions_as_errors("the server of clients",
                                [&]() -> expected<void> {
                                  settings.serve_client(std::move(client));
                                  return {};
                                })
        .has_value();
  }

  // Afterwards nothing calls the options' functions, although connections can live on for a moment.
  void end() {
    const std::lock_guard guard(asking_);
    ended_ = true;
    ::eventfd_write(stopping.get(), 1);
  }

  const tls_transport::options settings;
  const tls_context context;
  const unique_fd stopping;  // readable once the transport ends
  connection_table connections;

 private:
  mutable std::shared_mutex asking_;
  bool ended_ = false;
};

}  // namespace cudal1
