#include "config/base/base64.hpp"

#include <openssl/evp.h>

namespace cudal1 {

std::string base64(std::string_view bytes) {
  // In parts of whole 3-byte groups, since OpenSSL takes the size as an int.
  constexpr std::size_t part_bytes = 3 << 20;
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL appends a NUL
  for (std::size_t i = 0; i < bytes.size(); i += part_bytes) {
    const auto part = bytes.substr(i, part_bytes);
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data() + i / 3 * 4),
                    reinterpret_cast<const unsigned char*>(part.data()), static_cast<int>(part.size()));
  }
  text.pop_back();
  return text;
}

}  // namespace cudal1
