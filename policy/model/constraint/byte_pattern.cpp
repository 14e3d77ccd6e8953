#include "policy/model/constraint/byte_pattern.hpp"

namespace cudal1 {

byte_pattern byte_pattern::text(std::string_view t) {
  return byte_pattern({.what = kind::text, .bytes = std::string(t), .parts = {}, .forbidden = {}});
}

byte_pattern byte_pattern::any_of(std::string_view bytes) {
  return byte_pattern({.what = kind::any_of, .bytes = std::string(bytes), .parts = {}, .forbidden = {}});
}

byte_pattern byte_pattern::sequence(std::vector<byte_pattern> parts) {
  return byte_pattern({.what = kind::sequence, .bytes = "", .parts = std::move(parts), .forbidden = {}});
}

byte_pattern byte_pattern::choice(std::vector<byte_pattern> options) {
  return byte_pattern({.what = kind::choice, .bytes = "", .parts = std::move(options), .forbidden = {}});
}

byte_pattern byte_pattern::one_of(const std::vector<std::string>& texts) {
  std::vector<byte_pattern> options;
  options.reserve(texts.size());
  for (const auto& t : texts)
    options.push_back(text(t));
  return choice(std::move(options));
}

byte_pattern byte_pattern::repeated(byte_pattern p) {
  return byte_pattern({.what = kind::repeated, .bytes = "", .parts = {std::move(p)}, .forbidden = {}});
}

byte_pattern byte_pattern::times(const byte_pattern& p, int least, int most) {
  // Nested, so that each further time is a way on and not an alternative of its own length.
  byte_pattern more = text("");
  for (int i = most; i > least; --i)
    more = choice({text(""), sequence({p, more})});
  std::vector<byte_pattern> parts(static_cast<std::size_t>(least), p);
  parts.push_back(more);
  return sequence(std::move(parts));
}

byte_pattern byte_pattern::text_until(std::string end, std::vector<std::string> forbidden) {
  return byte_pattern(
      {.what = kind::text_until, .bytes = std::move(end), .parts = {}, .forbidden = std::move(forbidden)});
}

byte_pattern byte_pattern::within(byte_pattern p, double share) {
  return byte_pattern({.what = kind::within, .bytes = "", .parts = {std::move(p)}, .forbidden = {}, .share = share});
}

}  // namespace cudal1
