#include "actors/transport/certificates.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include "actors/transport/certificate_files.hpp"
#include "actors/transport/certificate_making.hpp"
#include "actors/transport/openssl_objects.hpp"
#include "config/base/describe.hpp"
#include "config/base/machine_name.hpp"
#include "config/base/unique_fd.hpp"

namespace cudal1 {

namespace {

using store_ptr = std::unique_ptr<X509_STORE, freed_by<X509_STORE_free>>;
using store_context_ptr = std::unique_ptr<X509_STORE_CTX, freed_by<X509_STORE_CTX_free>>;

// The blocks of a PEM file, each with its BEGIN and END lines; what stands between them is ignored.
std::vector<std::string> pem_blocks(const std::string& text) {
  std::vector<std::string> blocks;
  constexpr std::string_view begin = "-----BEGIN ", end = "-----END ";
  for (std::size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at)) {
    const std::size_t last = text.find(end, at);
    if (last == std::string::npos) break;
    const std::size_t after = std::min(text.find('\n', last), text.size());
    blocks.push_back(text.substr(at, after - at) + "\n");
    at = after;
  }
  return blocks;
}

expected<void> check_owner_only(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return file_failed(path, "cannot be read");
  if ((status.st_mode & 077) != 0) return fail(errc::invalid_argument, "others can read {}: chmod 600 {}", path, path);
  return {};
}

// Sorts the file's blocks into the three texts.
expected<identity> sort_blocks(const std::string& text, const std::string& path) {
  identity sorted;
  for (std::string& block : pem_blocks(text)) {
    std::string* place = nullptr;
    if (const certificate_ptr certificate = read_certificate(block)) {
      place = X509_check_ca(certificate.get()) > 0 ? &sorted.authority : &sorted.certificate;
    } else if (read_key(block)) {
      place = &sorted.key;
    } else {
      return fail(errc::parse_error, "{} has a part that is neither a certificate nor a key without a passphrase",
                  path);
    }
    if (!place->empty()) return fail(errc::parse_error, "{} has more than one part of the same kind", path);
    *place = std::move(block);
  }
  const char* missing = sorted.key.empty()           ? "private key"
                        : sorted.certificate.empty() ? "certificate"
                        : sorted.authority.empty()   ? "authority's certificate"
                                                     : nullptr;
  if (missing != nullptr) return fail(errc::parse_error, "{} has no {}", path, missing);
  return sorted;
}

expected<void> check_valid_at(const X509* certificate, wall_time now, const char* what, const std::string& path) {
  time_t seconds = unix_seconds(now);
  if (X509_cmp_time(X509_get0_notBefore(certificate), &seconds) >= 0)
    return fail(errc::invalid_argument, "the {} in {} is not valid yet: check this machine's clock", what, path);
  if (X509_cmp_time(X509_get0_notAfter(certificate), &seconds) <= 0)
    return fail(errc::invalid_argument, "the {} in {} has expired: have the coordinator issue another", what, path);
  return {};
}

bool is_signed_by(X509* certificate, X509* authority) {
  const store_ptr store(X509_STORE_new());
  const store_context_ptr context(X509_STORE_CTX_new());
  bool good = store && context && X509_STORE_add_cert(store.get(), authority) == 1 &&
              X509_STORE_CTX_init(context.get(), store.get(), certificate, nullptr) == 1;
  if (good) {
    X509_STORE_CTX_set_flags(context.get(), X509_V_FLAG_NO_CHECK_TIME);  // check_valid_at says it better
    good = X509_verify_cert(context.get()) == 1;
  }
  ERR_clear_error();
  return good;
}

// The only entry of that kind in the subject; empty where there is none or more than one.
std::string subject_field(const X509_NAME* subject, int kind) {
  const int at = X509_NAME_get_index_by_NID(subject, kind, -1);
  if (at < 0 || X509_NAME_get_index_by_NID(subject, kind, at) >= 0) return {};
  const ASN1_STRING* value = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
  return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                     static_cast<std::size_t>(ASN1_STRING_length(value)));
}

}  // namespace

expected<void> check_node_name(std::string_view name) {
  if (is_machine_name(name)) return {};
  return fail(errc::invalid_argument, "a node's name has 1-{} lower-case letters, digits and inner hyphens: '{}'",
              most_machine_name_characters, name.substr(0, most_machine_name_characters));
}

expected<peer> peer_of(const X509* certificate) {
  if (certificate == nullptr) return fail(errc::corrupt, "there is no certificate");
  const X509_NAME* subject = X509_get_subject_name(certificate);
  peer found{subject_field(subject, NID_commonName), peer_role::client, serial_of(certificate)};
  const auto role = enum_value<peer_role>(subject_field(subject, NID_organizationalUnitName));
  if (!check_node_name(found.name) || !role || found.serial.empty())
    return fail(errc::corrupt, "the certificate's subject is not a node's name and role");
  found.role = *role;
  return found;
}

expected<identity> read_identity(const std::string& path, wall_time now) {
  const unique_fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return file_failed(path, "cannot be read");
  CUDAL1_TRY(const std::string text, read_small_file(fd.get(), path));
  CUDAL1_CHECK(check_owner_only(fd.get(), path));
  CUDAL1_TRY(identity sorted, sort_blocks(text, path));
  const certificate_ptr certificate = read_certificate(sorted.certificate);
  const certificate_ptr authority = read_certificate(sorted.authority);
  const key_ptr key = read_key(sorted.key);
  const bool fits = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) return fail(errc::corrupt, "the private key in {} is not the certificate's", path);
  if (!is_signed_by(certificate.get(), authority.get()))
    return fail(errc::corrupt, "the certificate in {} is not signed by the authority in it", path);
  CUDAL1_CHECK(check_valid_at(certificate.get(), now, "certificate", path));
  CUDAL1_CHECK(check_valid_at(authority.get(), now, "authority's certificate", path));
  auto subject = peer_of(certificate.get());
  if (!subject) return fail_in(path, std::move(subject).error());
  sorted.name = subject->name;
  sorted.role = subject->role;
  return sorted;
}

}  // namespace cudal1
