// A cluster's authority in the coordinator's data folder: what it issues and revokes.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/transport/certificates.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

// A line of an authority's list of certificates.
struct issued_certificate {
  std::string name;
  peer_role role = peer_role::client;
  std::string serial;
  int64_t expires_unix_s = 0;
  bool revoked = false;
};

// An authority whose key and lists are in a folder of their own (DATA/cluster, mode 0700). Every call reads the lists,
// and every change holds a lock on the folder, so several processes can use it.
class certificate_authority {
 public:
  // Also writes the coordinator's identity to FOLDER/coordinator.pem; it is valid as long as the authority, 10 years.
  // Errors: already_exists, invalid_argument (the name), io_error, infrastructure (OpenSSL).
  static expected<certificate_authority> create(const std::string& folder, const std::string& coordinator_name);
  // Errors: not_found, io_error, parse_error.
  static expected<certificate_authority> open(const std::string& folder);

  // The text of an identity file for an agent or a client, valid for 3 years from `now` less a day. It is the only copy
  // of the key. Errors: invalid_argument (the name or the role), already_exists (the name has a certificate that is
  // neither revoked nor expired), io_error, corrupt (the lists), infrastructure (OpenSSL).
  expected<std::string> issue(const std::string& name, peer_role role,
                              wall_time now = std::chrono::system_clock::now()) const;
  // Revokes all certificates of that name. Errors: not_found (never issued), io_error, corrupt.
  expected<void> revoke(const std::string& name) const;
  // In the order of their issue. Errors: io_error, corrupt.
  expected<std::vector<issued_certificate>> list() const;

 private:
  explicit certificate_authority(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_, certificate_, key_;  // the texts are PEM
};

// An authority's revoked serial numbers, as its folder has them at each call. Thread-safe.
class revocations {
 public:
  explicit revocations(const std::string& folder);

  // Where the list cannot be read, the last one that could counts; if there was none, all serial numbers are revoked.
  bool is_revoked(const std::string& serial);

 private:
  struct file_version {
    int64_t modified_s = 0, modified_ns = 0, bytes = -1;
    uint64_t inode = 0;
    bool operator==(const file_version&) const = default;
  };

  std::string path_;
  std::mutex mutex_;
  file_version version_;  // of the file that serials_ was read from
  bool known_ = false;
  std::set<std::string> serials_;
};

}  // namespace cudal1
