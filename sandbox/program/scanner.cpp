#include "sandbox/program/scanner.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace cudal1 {
namespace {

bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool continues_name(char c) {
  return begins_name(c) || is_digit(c);
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

class scanner {
 public:
  scanner(std::string_view source, directive_form form) : source_(source), form_(form) {}

  std::vector<token> run() {
    while (at_ < source_.size())
      next();
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  void emit(token_kind kind, std::size_t begin) {
    tokens_.push_back({kind, source_.substr(begin, at_ - begin), begin, at_, line_, line_is_blank_});
    line_is_blank_ = line_is_blank_ && kind == token_kind::comment;
  }

  void next() {
    const char c = peek();
    if (c == '\n') {
      ++line_;
      ++at_;
      line_is_blank_ = true;
    } else if (is_blank(c)) {
      ++at_;
    } else if (c == '/' && (peek(1) == '/' || peek(1) == '*')) {
      comment();
    } else if (c == '#' && line_is_blank_ && form_ == directive_form::line) {
      directive();
    } else if (begins_name(c)) {
      name();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number();
    } else if (c == '"' || c == '\'') {
      quoted(c);
    } else {
      punctuation();
    }
  }

  void comment() {
    const auto begin = at_;
    const bool to_line_end = peek(1) == '/';
    const auto end = to_line_end ? source_.find('\n', at_) : source_.find("*/", at_ + 2);
    const bool closed = to_line_end || end != std::string_view::npos;
    at_ = end == std::string_view::npos ? source_.size() : end + (to_line_end ? 0 : 2);
    emit(closed ? token_kind::comment : token_kind::unclosed_comment, begin);
    const auto text = tokens_.back().text;
    line_ += static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }

  void directive() {
    const auto begin = at_;
    at_ = std::min(source_.find('\n', at_), source_.size());
    std::string_view text = source_.substr(begin + 1, at_ - begin - 1);
    while (!text.empty() && is_blank(text.front()))
      text.remove_prefix(1);
    const bool is_marker = !text.empty() && is_digit(text.front());
    emit(is_marker ? token_kind::line_marker : token_kind::directive, begin);
    if (!is_marker) return;
    int marked = 0;
    std::from_chars(text.data(), text.data() + text.size(), marked);
    line_ = marked - 1;  // the newline that follows increments it
  }

  void name() {
    const auto begin = at_;
    while (continues_name(peek()))
      ++at_;
    emit(token_kind::identifier, begin);
  }

  void number() {
    const auto begin = at_;
    const auto is_sign = [this] {
      return (peek() == '+' || peek() == '-') &&
             std::string_view("eEpP").find(source_[at_ - 1]) != std::string_view::npos;
    };
    while (continues_name(peek()) || peek() == '.' || (peek() == '\'' && continues_name(peek(1))) || is_sign())
      ++at_;
    emit(token_kind::number, begin);
  }

  void quoted(char quote) {
    const auto begin = at_++;
    while (at_ < source_.size() && peek() != quote && peek() != '\n')
      at_ = std::min(at_ + (peek() == '\\' ? 2 : 1), source_.size());
    const bool closed = peek() == quote;
    at_ = closed ? at_ + 1 : source_.size();
    emit(closed ? token_kind::text : token_kind::unclosed_text, begin);
  }

  void punctuation() {
    static constexpr std::array<std::string_view, 20> longer{
        "<<<", "->", "==", "<=", ">=", "!=", "&&", "||", "::", "++",
        "--",  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<"};
    const auto begin = at_;
    const auto rest = source_.substr(at_, 3);
    const auto* found = std::find_if(longer.begin(), longer.end(), [&](auto p) { return rest.starts_with(p); });
    at_ += found == longer.end() ? 1 : found->size();
    emit(token_kind::punctuation, begin);
  }

  std::string_view source_;
  directive_form form_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_is_blank_ = true;
  std::vector<token> tokens_;
};

// Why the rules of compilers cannot rely on this reading at `t`; "" where they can. `rest`: the source from `t` on.
std::string ambiguity_of(const token& t, std::string_view rest) {
  static constexpr std::array<std::string_view, 5> digraphs{"<%", "%>", "<:", ":>", "%:"};
  const auto c = static_cast<unsigned char>(t.text.front());
  switch (t.kind) {
    case token_kind::unclosed_comment:
      return "a comment never ends";
    case token_kind::unclosed_text:
      return "a string or character literal never ends";
    case token_kind::directive: {
      const auto open = t.text.find("/*");
      return open != std::string_view::npos && t.text.find("*/", open) == std::string_view::npos
                 ? "a comment begins on a preprocessor line and ends on another"
                 : "";
    }
    case token_kind::identifier:
      return t.text.back() == 'R' && t.text.size() <= 3 && rest.substr(t.text.size()).starts_with('"')
                 ? "raw strings are not supported"
                 : "";
    case token_kind::punctuation:
      break;
    default:
      return "";
  }
  if (c >= 0x80) return "a character beyond ASCII outside comments and strings";
  if (c < 0x20 || c == 0x7f) return "a control character";
  if (c == '\\') return "a backslash outside strings";
  if (c == '`' || c == '@' || c == '$') return fmt::format("the character '{}' has no meaning in C++", t.text.front());
  for (const auto digraph : digraphs)
    if (rest.starts_with(digraph))
      return fmt::format("the digraph \"{}\"; write a blank between its characters", digraph);
  return "";
}

}  // namespace

std::size_t joined_source::line_of(std::size_t at) const {
  const auto before = std::string_view(text).substr(0, at);
  const auto line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto newlines = std::count(before.begin(), before.end(), '\n');
  const auto joined = std::count_if(continuations.begin(), continuations.end(),
                                    [&](std::size_t joint) { return line_begin <= joint && joint <= at; });
  return static_cast<std::size_t>(1 + newlines + joined);
}

joined_source join_lines(std::string_view source) {
  joined_source joined;
  joined.text.reserve(source.size());
  std::size_t pending = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      std::size_t end = i + 1;
      while (end < source.size() && is_blank(source[end]))
        ++end;
      if (end < source.size() && source[end] == '\n') {
        joined.continuations.push_back(joined.text.size());
        ++pending;
        i = end;
        continue;
      }
    }
    joined.text += source[i];
    if (source[i] == '\n') {
      joined.text.append(pending, '\n');
      pending = 0;
    }
  }
  return joined;
}

std::vector<token> scan(std::string_view joined, directive_form form) {
  return scanner(joined, form).run();
}

expected<std::vector<token>> tokens_of(std::string_view joined) {
  auto tokens = scan(joined, directive_form::line);
  for (const auto& t : tokens)
    if (const auto why = ambiguity_of(t, joined.substr(t.begin)); !why.empty())
      return fail(errc::refused, "line {} of the source: {}", t.line, why);
  std::erase_if(tokens,
                [](const token& t) { return t.kind == token_kind::comment || t.kind == token_kind::line_marker; });
  return tokens;
}

std::size_t after_matching_bracket(std::span<const token> tokens, std::size_t open) {
  const auto opens = tokens[open].text;
  const std::string_view closes = opens == "(" ? ")" : opens == "[" ? "]" : "}";
  int depth = 0;
  for (std::size_t i = open; i < tokens.size(); ++i) {
    if (tokens[i].is(opens)) ++depth;
    if (tokens[i].is(closes) && --depth == 0) return i + 1;
  }
  return tokens.size() + 1;
}

std::string_view leading_word(std::string_view text) {
  return text.substr(
      0, static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), continues_name) - text.begin()));
}

}  // namespace cudal1
