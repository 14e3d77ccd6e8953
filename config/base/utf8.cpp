#include "config/base/utf8.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cudal1 {

namespace {

// The size of the UTF-8 sequence at the beginning of `text` (not empty); 0 if there is none.
std::size_t sequence_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes > text.size()) return 0;
  uint32_t point = first & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(i) & 0x3fu);
  }
  const bool too_long = (bytes == 3 && point < 0x800) || (bytes == 4 && point < 0x10000);
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  return too_long || surrogate || point > 0x10ffff ? 0 : bytes;
}

// The bytes of `text` at its beginning that are ASCII, in whole words: most texts are nothing else.
std::size_t ascii_words(std::string_view text) {
  constexpr uint64_t high_bits = 0x8080808080808080;
  std::size_t done = 0;
  for (uint64_t word = 0; done + sizeof word <= text.size(); done += sizeof word) {
    std::memcpy(&word, text.data() + done, sizeof word);
    if ((word & high_bits) != 0) break;
  }
  return done;
}

// The size of the longest prefix of `text` that is UTF-8.
std::size_t valid_prefix(std::string_view text) {
  std::size_t valid = 0;
  while (valid < text.size()) {
    valid += ascii_words(text.substr(valid));
    if (valid == text.size()) break;
    const std::size_t bytes = sequence_bytes(text.substr(valid));
    if (bytes == 0) break;
    valid += bytes;
  }
  return valid;
}

}  // namespace

bool is_valid_utf8(std::string_view text) {
  return valid_prefix(text) == text.size();
}

std::string replace_invalid_utf8(std::string text) {
  std::string_view rest = text;
  std::size_t valid = valid_prefix(rest);
  if (valid == rest.size()) return text;
  std::string out;
  for (; valid < rest.size(); valid = valid_prefix(rest)) {
    out.append(rest, 0, valid).append("\xef\xbf\xbd");
    rest.remove_prefix(valid + 1);
  }
  return out.append(rest);
}

}  // namespace cudal1
