// A coordinator on another machine, as the command line reaches it: over mutual TLS, with a client's certificate.
#pragma once

#include <memory>
#include <string>

#include "actors/clients/client.hpp"
#include "actors/transport/certificates.hpp"
#include "actors/transport/network_address.hpp"
#include "actors/transport/tls_session.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

// Thread-safe.
class remote_node {
 public:
  // `address` is where machines join, as in "gpu1:4977". Errors: invalid_argument (the address, or the certificate is
  // not a client's), infrastructure.
  static expected<std::shared_ptr<const remote_node>> make(const std::string& address, const identity& own);

  // A new connection. The coordinator may still refuse its first request. errc::infrastructure: the host cannot be
  // reached in ten seconds, or what listens there is not the coordinator of this client's cluster.
  expected<node_client> connect() const;
  const std::string& address() const { return address_; }

 private:
  remote_node(std::string address, network_address where, tls_context context)
      : address_(std::move(address)), where_(std::move(where)), context_(std::move(context)) {}

  std::string address_;
  network_address where_;
  tls_context context_;
};

}  // namespace cudal1
