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

expected<std::string> from_base64(std::string_view text) {
  constexpr std::size_t part_bytes = 4 << 20;
  const auto invalid = [] { return fail(errc::parse_error, "it is not base64"); };
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  // OpenSSL would ignore white space around the text.
  if (text.size() % 4 != 0 || text.find_first_of(" \t\r\n") != std::string_view::npos ||
      text.substr(0, text.size() - padding).find('=') != std::string_view::npos)
    return invalid();
  std::string bytes(text.size() / 4 * 3, '\0');
  for (std::size_t i = 0; i < text.size(); i += part_bytes) {
    const auto part = text.substr(i, part_bytes);
    const int decoded =
        EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data() + i / 4 * 3),
                        reinterpret_cast<const unsigned char*>(part.data()), static_cast<int>(part.size()));
    // Fewer where OpenSSL has ignored a group of "----", which ends base64 in some files.
    if (decoded != static_cast<int>(part.size() / 4 * 3)) return invalid();
  }
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace cudal1
