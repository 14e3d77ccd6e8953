// The certificates of a cluster's nodes: the name and the role in one, and a node's identity file.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <boost/describe/enum.hpp>
#include <openssl/types.h>

#include "config/base/error.hpp"

namespace cudal1 {

// What a node may do in its cluster. Only a coordinator's certificate may serve connections.
BOOST_DEFINE_ENUM_CLASS(peer_role, coordinator, agent, client)

// A certificate's subject and serial number.
struct peer {
  std::string name;  // see is_machine_name (config/base/machine_name.hpp)
  peer_role role = peer_role::client;
  std::string serial;  // 32 lower-case hexadecimal digits
};

// errc::invalid_argument unless it can be a machine's name.
expected<void> check_node_name(std::string_view name);

// Does not check who signed the certificate. errc::corrupt where its subject is not of this cluster's form.
expected<peer> peer_of(const X509* certificate);

// What a node presents to its peers. The texts are PEM.
struct identity {
  std::string name;
  peer_role role = peer_role::client;
  std::string certificate, key, authority;
};

// Where a data folder has certificates.
inline std::string cluster_folder(const std::string& data) {
  return data + "/cluster";
}

using wall_time = std::chrono::system_clock::time_point;

// Reads a PEM file that has a private key, its certificate and the authority's certificate, in any order.
// Errors: not_found, io_error; parse_error (not PEM, or not exactly these three); invalid_argument (others can read the
// file, or a certificate is not valid at `now`); corrupt (the three do not belong together).
expected<identity> read_identity(const std::string& path, wall_time now = std::chrono::system_clock::now());

}  // namespace cudal1
