#include "config/base/hash.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <openssl/evp.h>
#include <unistd.h>
#include <xxhash.h>

namespace cudal1 {

namespace {

std::string hex_of(std::span<const unsigned char> digest) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out;
  out.reserve(std::size_t{2} * digest.size());
  for (const unsigned char byte : digest) {
    out += hex[byte >> 4];
    out += hex[byte & 15];
  }
  return out;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  return hex_of({digest, size});
}

expected<std::string> sha256_of_file(int fd) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> state(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(state.get(), EVP_sha256(), nullptr);
  std::vector<char> part(std::size_t{1} << 20);
  for (off_t at = 0;;) {
    const ssize_t got = ::pread(fd, part.data(), part.size(), at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(errc::io_error, "cannot be read: {}", std::strerror(errno));
    if (got == 0) break;
    EVP_DigestUpdate(state.get(), part.data(), static_cast<std::size_t>(got));
    at += got;
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_DigestFinal_ex(state.get(), digest, &size);
  return hex_of({digest, size});
}

fingerprint fingerprint_of(const void* data, std::size_t bytes, uint64_t seed) {
  const auto h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.low64, h.high64};
}

}  // namespace cudal1
