// Making and signing certificates, and their texts as PEM. Internal to the certificates.
#pragma once

#include <chrono>
#include <cstddef>
#include <ctime>
#include <optional>
#include <string>

#include "actors/transport/certificate_authority.hpp"
#include "actors/transport/openssl_objects.hpp"
#include "config/base/error.hpp"

namespace cudal1 {

inline constexpr std::size_t serial_bytes = 16;

inline time_t unix_seconds(wall_time t) {
  return std::chrono::system_clock::to_time_t(t);
}

// errc::infrastructure (OpenSSL), like all functions here that can fail.
expected<std::string> to_pem(X509* certificate);
expected<std::string> to_pem(EVP_PKEY* key);
// Null where the text is not the PEM of one.
certificate_ptr read_certificate(const std::string& pem);
key_ptr read_key(const std::string& pem);

// 2 * serial_bytes digits, or the empty text for a number that no authority of ours issues.
std::string serial_of(const X509* certificate);

struct certificate_request {
  std::string name;
  std::optional<peer_role> role;  // none: an authority
  wall_time from, until;
};

expected<key_ptr> make_key();

// `issuer` is null for a certificate that signs itself.
expected<certificate_ptr> make_certificate(const certificate_request& request, EVP_PKEY* key, X509* issuer,
                                           EVP_PKEY* issuer_key);

// A node's key and certificate, and its identity file.
struct issued_identity {
  issued_certificate entry;
  std::string text;
};
expected<issued_identity> make_identity(const certificate_request& request, X509* authority, EVP_PKEY* authority_key);

}  // namespace cudal1
