// OpenSSL's objects as owners, its errors as ours, and reading PEM. For the sources that use OpenSSL only.
#pragma once

#include <memory>
#include <string>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "config/base/error.hpp"

namespace cudal1 {

template <auto Free>
struct freed_by {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using bio_ptr = std::unique_ptr<BIO, freed_by<BIO_free>>;
using certificate_ptr = std::unique_ptr<X509, freed_by<X509_free>>;
using key_ptr = std::unique_ptr<EVP_PKEY, freed_by<EVP_PKEY_free>>;

// Empties OpenSSL's error queue; the queue is one for all connections of a thread.
inline std::string take_openssl_error() {
  const unsigned long code = ERR_get_error();
  const char* reason = code != 0 ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  return reason != nullptr ? reason : "no reason given";
}

inline tl::unexpected<error> openssl_failed(const char* what) {
  return fail(errc::infrastructure, "OpenSSL: {}: {}", what, take_openssl_error());
}

// `read`: PEM_read_bio_X509 or its like. A passphrase is never asked for, which OpenSSL would do on the terminal.
template <class Read>
auto read_pem(Read read, const std::string& pem) {
  const bio_ptr memory(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return read(
      memory.get(), nullptr, [](char*, int, int, void*) { return -1; }, nullptr);
}

}  // namespace cudal1
