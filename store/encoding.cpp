#include "store/encoding.hpp"

#include <cstdint>

namespace cudal1 {

namespace {

// The length of the UTF-8 sequence that begins at s[i], or 0.
std::size_t sequence_length(std::string_view s, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(s[k]); };
  const unsigned first = byte(i);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || i + length > s.size()) return 0;
  uint32_t point = first & (0x7fu >> length);
  for (std::size_t k = i + 1; k < i + length; ++k) {
    if ((byte(k) & 0xc0) != 0x80) return 0;
    point = point << 6 | (byte(k) & 0x3fu);
  }
  const bool too_long = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  return too_long || surrogate || point > 0x10ffff ? 0 : length;
}

}  // namespace

std::string to_utf8(std::string text) {
  std::size_t good = 0;
  for (std::size_t n; good < text.size() && (n = sequence_length(text, good)) > 0;)
    good += n;
  if (good == text.size()) return text;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = sequence_length(text, i);
    out += n > 0 ? std::string_view(text).substr(i, n) : std::string_view("\xef\xbf\xbd");
    i += n > 0 ? n : 1;
  }
  return out;
}

}  // namespace cudal1
