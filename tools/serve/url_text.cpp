#include "tools/serve/url_text.hpp"

#include <fmt/format.h>

#include "config/base/utf8.hpp"

namespace cudal1::serve {

namespace {

std::optional<int> digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t from = 0;;) {
    const auto to = text.find(at, from);
    parts.push_back(text.substr(from, to - from));
    if (to == std::string_view::npos) return parts;
    from = to + 1;
  }
}

std::optional<std::string> url_unescaped(std::string_view text, bool plus_is_space) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      if (i + 2 >= text.size()) return std::nullopt;
      const auto high = digit_of(text[i + 1]), low = digit_of(text[i + 2]);
      if (!high || !low) return std::nullopt;
      out += static_cast<char>(*high * 16 + *low);
      i += 2;
    }
  }
  if (out.find('\0') != std::string::npos || !is_valid_utf8(out)) return std::nullopt;
  return out;
}

std::string url_escaped(std::string_view text) {
  constexpr std::string_view plain = "-._~";
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          plain.find(c) != std::string_view::npos;
    if (is_plain)
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::optional<std::map<std::string, std::string>> form_fields(std::string_view body) {
  std::map<std::string, std::string> fields;
  for (const auto pair : split(body, '&')) {
    if (pair.empty()) continue;
    const auto equals = pair.find('=');
    const auto name = url_unescaped(pair.substr(0, equals), true);
    const auto value =
        url_unescaped(equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!name || !value || !fields.emplace(*name, *value).second) return std::nullopt;
  }
  return fields;
}

}  // namespace cudal1::serve
