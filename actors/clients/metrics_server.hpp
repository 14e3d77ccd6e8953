// Serves a node's metrics over HTTP at /metrics, on an address of this machine only: it has no authentication.
#pragma once

#include <memory>
#include <string>

#include "actors/messages/interfaces.hpp"

namespace cudal1 {

class metrics_server {
 public:
  // `address`: operation.metrics, "127.0.0.1:9464". Port 0 takes a free one. errc::invalid_argument where it is
  // malformed or not of this machine; errc::io_error where it cannot be bound.
  static expected<std::unique_ptr<metrics_server>> listen(caf::actor_system& system, const std::string& address,
                                                          coordinator_actor node);
  virtual ~metrics_server() = default;
  virtual int port() const = 0;
};

}  // namespace cudal1
