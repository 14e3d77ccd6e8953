#include "policy/model/tokenizer/byte_alphabet.hpp"

#include <array>
#include <cstdint>

namespace cudal1 {

namespace {

constexpr uint32_t first_replacement = 256;  // of the bytes that are not printable, in their order

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// By character: its byte, or -1.
constexpr std::array<int16_t, 512> byte_of_character = [] {
  std::array<int16_t, 512> out{};
  out.fill(-1);
  uint32_t next = first_replacement;
  for (uint32_t byte = 0; byte < 256; ++byte)
    out[stands_for_itself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  return out;
}();

}  // namespace

std::optional<std::string> bytes_of_alphabet(std::string_view token) {
  std::string out;
  for (std::size_t i = 0; i < token.size(); ++i) {
    auto character = static_cast<uint32_t>(static_cast<unsigned char>(token[i]));
    // All of the alphabet's characters have one or two bytes in UTF-8.
    if (character >= 0x80) {
      if (++i == token.size() || character < 0xc0 || character >= 0xe0) return std::nullopt;
      character = (character & 0x1fu) << 6 | (static_cast<unsigned char>(token[i]) & 0x3fu);
    }
    if (character >= byte_of_character.size() || byte_of_character[character] < 0) return std::nullopt;
    out += static_cast<char>(byte_of_character[character]);
  }
  return out;
}

}  // namespace cudal1
