#include "policy/prompt/plain_json.hpp"

#include <algorithm>

namespace cudal1 {

namespace {

// The end of the string that begins at `at`.
std::size_t after_string(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\') ++at;
  return std::min(at + 1, text.size());
}

// The end of the comment that begins at `at`; `at` itself if none does.
std::size_t after_comment(std::string_view text, std::size_t at) {
  const auto rest = text.substr(at);
  if (rest.starts_with("//")) return std::min(text.find('\n', at), text.size());
  if (!rest.starts_with("/*")) return at;
  const auto end = text.find("*/", at + 2);
  return end == std::string_view::npos ? text.size() : end + 2;
}

std::string without_comments(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto comment = after_comment(text, i);
    const auto end = comment > i ? comment : text[i] == '"' ? after_string(text, i) : i + 1;
    if (comment > i)
      out.append(static_cast<std::size_t>(std::ranges::count(text.substr(i, end - i), '\n')), '\n');
    else
      out += text.substr(i, end - i);
    i = end;
  }
  return out;
}

}  // namespace

std::string plain_json(std::string_view text) {
  const auto plain = without_comments(text);
  std::string out;
  for (std::size_t i = 0; i < plain.size();) {
    const auto end = plain[i] == '"' ? after_string(plain, i) : i + 1;
    const auto next = plain[i] == ',' ? plain.find_first_not_of(" \t\r\n", i + 1) : std::string::npos;
    if (next == std::string::npos || (plain[next] != ']' && plain[next] != '}')) out += plain.substr(i, end - i);
    i = end;
  }
  return out;
}

std::size_t object_length(std::string_view text) {
  auto at = text.find_first_not_of(" \t\r\n");
  if (at == std::string_view::npos || text[at] != '{') return 0;
  for (int depth = 0; at < text.size();) {
    if (const auto comment = after_comment(text, at); comment > at) {
      at = comment;
      continue;
    }
    if (text[at] == '"') {
      at = after_string(text, at);
      continue;
    }
    if (text[at] == '{') ++depth;
    if (text[at] == '}' && --depth == 0) return at + 1;
    ++at;
  }
  return 0;
}

}  // namespace cudal1
