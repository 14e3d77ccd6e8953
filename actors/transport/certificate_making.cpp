#include "actors/transport/certificate_making.hpp"

#include <utility>

#include <fmt/ranges.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include "config/base/describe.hpp"

namespace cudal1 {

namespace {

using bignum_ptr = std::unique_ptr<BIGNUM, freed_by<BN_free>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freed_by<X509_EXTENSION_free>>;

template <class Write>
expected<std::string> to_pem(const char* what, Write write) {
  ERR_clear_error();
  const bio_ptr memory(BIO_new(BIO_s_mem()));
  if (!memory || write(memory.get()) != 1) return openssl_failed(what);
  char* text = nullptr;
  const long bytes = BIO_get_mem_data(memory.get(), &text);
  return std::string(text, static_cast<std::size_t>(bytes));
}

expected<void> set_serial(X509* certificate) {
  unsigned char bytes[serial_bytes];
  if (RAND_bytes(bytes, sizeof bytes) != 1) return openssl_failed("a random number");
  const bignum_ptr number(BN_bin2bn(bytes, sizeof bytes, nullptr));
  if (!number || BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr)
    return openssl_failed("a serial number");
  return {};
}

bool add_to_subject(X509_NAME* subject, const char* field, const std::string& value) {
  return X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(value.data()),
                                    static_cast<int>(value.size()), -1, 0) == 1;
}

expected<void> add_extension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const extension_ptr extension(X509V3_EXT_conf_nid(nullptr, &context, kind, value));
  if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) return openssl_failed("an extension");
  return {};
}

// The extended key usage keeps an agent's certificate from being taken for a coordinator's, whatever a program checks.
expected<void> add_extensions(X509* certificate, X509* issuer, std::optional<peer_role> role) {
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_subject_key_identifier, "hash"));
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_authority_key_identifier, "keyid"));
  if (!role) {
    CUDAL1_CHECK(add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
    return add_extension(certificate, issuer, NID_key_usage, "critical,keyCertSign,cRLSign");
  }
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  CUDAL1_CHECK(add_extension(certificate, issuer, NID_key_usage, "critical,digitalSignature"));
  return add_extension(certificate, issuer, NID_ext_key_usage,
                       *role == peer_role::coordinator ? "serverAuth,clientAuth" : "clientAuth");
}

}  // namespace

expected<std::string> to_pem(X509* certificate) {
  return to_pem("writing a certificate", [&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}

expected<std::string> to_pem(EVP_PKEY* key) {
  return to_pem("writing a key",
                [&](BIO* to) { return PEM_write_bio_PKCS8PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

certificate_ptr read_certificate(const std::string& pem) {
  certificate_ptr read(read_pem(PEM_read_bio_X509, pem));
  ERR_clear_error();
  return read;
}

key_ptr read_key(const std::string& pem) {
  key_ptr read(read_pem(PEM_read_bio_PrivateKey, pem));
  ERR_clear_error();
  return read;
}

std::string serial_of(const X509* certificate) {
  const bignum_ptr number(ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), nullptr));
  unsigned char bytes[serial_bytes] = {};
  // A number that is longer or negative is not of this authority; the empty text is in none of its lists.
  if (!number || BN_is_negative(number.get()) || BN_bn2binpad(number.get(), bytes, sizeof bytes) < 0) return {};
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

expected<key_ptr> make_key() {
  ERR_clear_error();
  key_ptr key(EVP_EC_gen("P-256"));
  if (!key) return openssl_failed("a key");
  return key;
}

expected<certificate_ptr> make_certificate(const certificate_request& request, EVP_PKEY* key, X509* issuer,
                                           EVP_PKEY* issuer_key) {
  ERR_clear_error();
  certificate_ptr made(X509_new());
  if (!made || X509_set_version(made.get(), X509_VERSION_3) != 1) return openssl_failed("a certificate");
  if (issuer == nullptr) issuer = made.get();
  CUDAL1_CHECK(set_serial(made.get()));
  X509_NAME* subject = X509_get_subject_name(made.get());
  bool set = add_to_subject(subject, "CN", request.name) &&
             add_to_subject(subject, "OU", request.role ? enum_name(*request.role) : "authority");
  set = set && X509_set_issuer_name(made.get(), X509_get_subject_name(issuer)) == 1;
  set = set && ASN1_TIME_set(X509_getm_notBefore(made.get()), unix_seconds(request.from)) != nullptr;
  set = set && ASN1_TIME_set(X509_getm_notAfter(made.get()), unix_seconds(request.until)) != nullptr;
  if (!set || X509_set_pubkey(made.get(), key) != 1) return openssl_failed("a certificate's fields");
  CUDAL1_CHECK(add_extensions(made.get(), issuer, request.role));
  if (X509_sign(made.get(), issuer_key, EVP_sha256()) == 0) return openssl_failed("signing a certificate");
  return made;
}

expected<issued_identity> make_identity(const certificate_request& request, X509* authority, EVP_PKEY* authority_key) {
  CUDAL1_TRY(const key_ptr key, make_key());
  CUDAL1_TRY(const certificate_ptr made, make_certificate(request, key.get(), authority, authority_key));
  CUDAL1_TRY(const std::string key_text, to_pem(key.get()));
  CUDAL1_TRY(const std::string text, to_pem(made.get()));
  CUDAL1_TRY(const std::string authority_text, to_pem(authority));
  const peer_role role = request.role.value_or(peer_role::client);
  return issued_identity{{request.name, role, serial_of(made.get()), unix_seconds(request.until)},
                         key_text + text + authority_text};
}

}  // namespace cudal1
