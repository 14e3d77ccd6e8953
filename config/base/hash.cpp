#include "config/base/hash.hpp"

#include <openssl/evp.h>
#include <xxhash.h>

namespace cudal1 {

std::string sha256_hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr);
  static constexpr char hex[] = "0123456789abcdef";
  std::string out;
  out.reserve(std::size_t{2} * size);
  for (unsigned i = 0; i < size; ++i) {
    out += hex[digest[i] >> 4];
    out += hex[digest[i] & 15];
  }
  return out;
}

fingerprint fingerprint_of(const void* data, std::size_t bytes, uint64_t seed) {
  const auto h = XXH3_128bits_withSeed(data, bytes, seed);
  return {h.low64, h.high64};
}

}  // namespace cudal1
