#include "tools/charts/escape.hpp"

#include "config/base/utf8.hpp"

namespace cudal1::charts {

std::string escaped(std::string_view text) {
  const auto valid = replace_invalid_utf8(std::string(text));
  std::string out;
  out.reserve(valid.size() + valid.size() / 8);
  for (const char c : valid) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else if ((code < 0x20 && c != '\t' && c != '\n') || code == 0x7f)
      out += "\xEF\xBF\xBD";
    else
      out += c;
  }
  return out;
}

}  // namespace cudal1::charts
