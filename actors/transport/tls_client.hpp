// The connection of a client on another machine, after its handshake.
#pragma once

#include <memory>
#include <optional>

#include "actors/transport/certificates.hpp"
#include "actors/transport/tls_session.hpp"
#include "config/base/error.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

struct tls_client {
  peer who;
  std::optional<error> refusal;  // why it is not admitted: all that it may be told
  unique_fd fd;
  tls_session session;          // over `fd`
  std::shared_ptr<void> entry;  // among the transport's connections; to be released before `fd` is closed
};

}  // namespace cudal1
