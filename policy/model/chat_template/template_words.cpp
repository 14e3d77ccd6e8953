#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "policy/model/chat_template/template_syntax.hpp"

namespace cudal1 {

namespace {

constexpr std::string_view blanks = " \t\n\r\v\f";

std::string_view without_end(std::string_view text, std::string_view characters) {
  const auto last = text.find_last_not_of(characters);
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

// Where the tag ends that begins at `from`: quoted texts may have its closing braces.
std::size_t end_of_tag(std::string_view source, std::size_t from, std::string_view closing) {
  char quote = 0;
  for (std::size_t i = from; i < source.size(); ++i) {
    if (quote != 0) {
      if (source[i] == '\\')
        ++i;
      else if (source[i] == quote)
        quote = 0;
    } else if (source.substr(i).starts_with(closing)) {
      return i;
    } else if (closing != "#}" && (source[i] == '\'' || source[i] == '"')) {
      quote = source[i];
    }
  }
  return std::string_view::npos;
}

// The text before a block or comment, without the blanks that stand alone before it on its line.
std::string_view without_indent(std::string_view text, bool at_start) {
  const auto kept = without_end(text, " \t");
  return (kept.empty() && at_start) || kept.ends_with('\n') ? kept : text;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0u | c >> 6);
    out += static_cast<char>(0x80u | (c & 0x3fu));
  } else {
    out += static_cast<char>(0xe0u | c >> 12);
    out += static_cast<char>(0x80u | (c >> 6 & 0x3fu));
    out += static_cast<char>(0x80u | (c & 0x3fu));
  }
}

// The quoted text at the beginning of `source`, and how long it is there.
expected<std::pair<std::string, std::size_t>> quoted_text(std::string_view source) {
  std::string out;
  for (std::size_t i = 1; i < source.size(); ++i) {
    if (source[i] == source[0]) return std::pair(out, i + 1);
    if (source[i] != '\\') {
      out += source[i];
      continue;
    }
    if (++i == source.size()) break;
    constexpr std::string_view escapes = "ntr\\'\"0bf";
    const auto known = escapes.find(source[i]);
    if (known != std::string_view::npos) {
      out += std::string_view("\n\t\r\\'\"\0\b\f", 9)[known];
    } else if (source[i] == 'u' || source[i] == 'x') {
      const std::size_t digits = source[i] == 'u' ? 4 : 2;
      const auto number = source.substr(i + 1, digits);
      uint32_t c = 0;
      const auto [end, problem] = std::from_chars(number.data(), number.data() + number.size(), c, 16);
      if (problem != std::errc() || number.size() != digits || end != number.data() + digits)
        return fail(errc::parse_error, "\\{} needs {} hexadecimal digits", source[i], digits);
      append_utf8(out, c);
      i += digits;
    } else if (source[i] != '\n') {
      out += '\\';
      out += source[i];
    }
  }
  return fail(errc::parse_error, "a quoted text does not end");
}

bool is_name_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

template_word number_at(std::string_view source) {
  std::size_t size = 0;
  const auto digits = [&] {
    while (size < source.size() && std::isdigit(static_cast<unsigned char>(source[size])) != 0)
      ++size;
  };
  digits();
  const bool is_real = size + 1 < source.size() && source[size] == '.' &&
                       std::isdigit(static_cast<unsigned char>(source[size + 1])) != 0;
  if (is_real) {
    ++size;
    digits();
  }
  return {is_real ? template_word::kind::real : template_word::kind::integer, std::string(source.substr(0, size))};
}

}  // namespace

expected<std::vector<template_piece>> cut_template(std::string_view source) {
  if (source.ends_with('\n')) source.remove_suffix(1);
  std::vector<template_piece> out;
  std::size_t at = 0;
  bool strips_next = false, trims_next = false;  // blanks, or one newline, after the tag before
  while (at <= source.size()) {
    std::size_t tag = at;
    while (tag < source.size() && !(source[tag] == '{' && tag + 1 < source.size() &&
                                    std::string_view("{%#").find(source[tag + 1]) != std::string_view::npos))
      ++tag;
    const bool has_tag = tag < source.size();
    auto text = source.substr(at, tag - at);
    const auto line = static_cast<int>(1 + std::ranges::count(source.substr(0, tag), '\n'));
    bool at_line_start = at == 0;
    if (trims_next && text.starts_with('\n')) text.remove_prefix(1), at_line_start = true;
    if (strips_next) {
      const auto first = text.find_first_not_of(blanks);
      at_line_start = at_line_start || text.substr(0, first).find('\n') != std::string_view::npos;
      text.remove_prefix(std::min(first, text.size()));
    }
    const char kind = has_tag ? source[tag + 1] : ' ';
    const char mark = has_tag && tag + 2 < source.size() ? source[tag + 2] : ' ';
    if (mark == '-')
      text = without_end(text, blanks);
    else if (has_tag && kind != '{' && mark != '+')
      text = without_indent(text, at_line_start);
    if (!text.empty()) out.push_back({template_piece::kind::text, text, line});
    if (!has_tag) break;
    const std::string closing = {kind == '{' ? '}' : kind, '}'};
    const std::size_t begin = tag + 2 + (mark == '-' || mark == '+' ? 1 : 0);
    const std::size_t end = end_of_tag(source, begin, closing);
    if (end == std::string_view::npos) return fail(errc::parse_error, "line {}: a tag does not end", line);
    auto content = source.substr(begin, end - begin);
    strips_next = content.ends_with('-');
    trims_next = kind != '{' && !content.ends_with('+');
    if (strips_next || content.ends_with('+')) content.remove_suffix(1);
    if (kind == '{') out.push_back({template_piece::kind::output, content, line});
    if (kind == '%') out.push_back({template_piece::kind::block, content, line});
    at = end + 2;
  }
  return out;
}

expected<std::vector<template_word>> words_of(std::string_view expression) {
  using kind = template_word::kind;
  std::vector<template_word> out;
  for (std::size_t at = 0; at < expression.size();) {
    const auto left = expression.substr(at);
    const char c = left[0];
    if (blanks.find(c) != std::string_view::npos) {
      ++at;
    } else if (is_name_start(c)) {
      const auto end = std::ranges::find_if_not(left, is_name);
      out.push_back({kind::name, std::string(left.begin(), end)});
      at += out.back().text.size();
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      out.push_back(number_at(left));
      at += out.back().text.size();
    } else if (c == '\'' || c == '"') {
      CUDAL1_TRY(auto text, quoted_text(left));
      out.push_back({kind::text, std::move(text.first)});
      at += text.second;
    } else {
      constexpr std::array<std::string_view, 6> pairs = {"==", "!=", "<=", ">=", "//", "**"};
      const bool is_pair = std::ranges::find(pairs, left.substr(0, 2)) != pairs.end();
      if (!is_pair && std::string_view("+-*/%~<>()[]{},:.|=").find(c) == std::string_view::npos)
        return fail(errc::parse_error, "the character {} has no meaning in an expression", left.substr(0, 1));
      out.push_back({kind::sign, std::string(left.substr(0, is_pair ? 2 : 1))});
      at += out.back().text.size();
    }
  }
  out.push_back({kind::end, ""});
  return out;
}

}  // namespace cudal1
