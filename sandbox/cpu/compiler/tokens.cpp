#include "sandbox/cpu/compiler/tokens.hpp"

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

class tokenizer {
 public:
  explicit tokenizer(std::string_view source) : source_(source) {}

  expected<std::vector<token>> run() {
    while (at_ < source_.size())
      CUDAL1_CHECK(next());
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  template <class... Args>
  tl::unexpected<error> refuse(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(errc::refused, "line {} of the source: {}", line_, fmt::format(format, std::forward<Args>(args)...));
  }

  void emit(token_kind kind, std::size_t begin) {
    tokens_.push_back({kind, source_.substr(begin, at_ - begin), begin, at_, line_});
    line_is_blank_ = false;
  }

  expected<void> next() {
    const char c = peek();
    if (c == '\n') {
      ++line_;
      ++at_;
      line_is_blank_ = true;
    } else if (is_blank(c)) {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      at_ = std::min(source_.find('\n', at_), source_.size());
    } else if (c == '/' && peek(1) == '*') {
      return comment();
    } else if (c == '#' && line_is_blank_) {
      return directive();
    } else if (begins_name(c)) {
      return name();
    } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
      number();
    } else if (c == '"' || c == '\'') {
      return quoted(c);
    } else {
      return punctuation();
    }
    return {};
  }

  expected<void> comment() {
    const auto end = source_.find("*/", at_ + 2);
    if (end == std::string_view::npos) return refuse("a comment never ends");
    line_ += static_cast<int>(std::count(source_.begin() + at_, source_.begin() + end, '\n'));
    at_ = end + 2;
    return {};
  }

  expected<void> directive() {
    const auto begin = at_;
    at_ = std::min(source_.find('\n', at_), source_.size());
    std::string_view text = source_.substr(begin + 1, at_ - begin - 1);
    while (!text.empty() && is_blank(text.front()))
      text.remove_prefix(1);
    if (!text.empty() && is_digit(text.front())) {
      int marked = 0;
      std::from_chars(text.data(), text.data() + text.size(), marked);
      line_ = marked - 1;  // of the next line, whose newline comes first
      return {};
    }
    // A comment that begins on the directive's line could run on over the next ones.
    const auto open = source_.substr(begin, at_ - begin).find("/*");
    if (open != std::string_view::npos &&
        source_.substr(begin + open, at_ - begin - open).find("*/") == std::string_view::npos)
      return refuse("a comment begins on a preprocessor line and ends on another");
    emit(token_kind::directive, begin);
    return {};
  }

  expected<void> name() {
    const auto begin = at_;
    while (continues_name(peek()))
      ++at_;
    const auto text = source_.substr(begin, at_ - begin);
    if (peek() == '"' && text.back() == 'R' && text.size() <= 3) return refuse("raw strings are not supported");
    emit(token_kind::identifier, begin);
    return {};
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

  expected<void> quoted(char quote) {
    const auto begin = at_++;
    while (peek() != quote) {
      if (at_ >= source_.size() || peek() == '\n') return refuse("a string or character literal never ends");
      at_ += peek() == '\\' ? 2 : 1;
    }
    ++at_;
    emit(token_kind::text, begin);
    return {};
  }

  expected<void> punctuation() {
    static constexpr std::array<std::string_view, 5> digraphs{"<%", "%>", "<:", ":>", "%:"};
    static constexpr std::array<std::string_view, 20> longer{
        "<<<", "->", "==", "<=", ">=", "!=", "&&", "||", "::", "++",
        "--",  "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<"};
    const auto rest = source_.substr(at_, 3);
    const auto c = static_cast<unsigned char>(peek());
    if (c >= 0x80) return refuse("a character beyond ASCII outside comments and strings");
    if (c < 0x20 || c == 0x7f) return refuse("a control character");
    if (c == '\\') return refuse("a backslash outside strings");
    if (c == '`' || c == '@' || c == '$') return refuse("the character '{}' has no meaning in C++", peek());
    for (const auto digraph : digraphs)
      if (rest.starts_with(digraph)) return refuse("the digraph \"{}\"; write a blank between its characters", digraph);
    const auto begin = at_;
    const auto* found = std::find_if(longer.begin(), longer.end(), [&](auto p) { return rest.starts_with(p); });
    at_ += found == longer.end() ? 1 : found->size();
    emit(token_kind::punctuation, begin);
    return {};
  }

  std::string_view source_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_is_blank_ = true;
  std::vector<token> tokens_;
};

}  // namespace

std::string join_lines(std::string_view source) {
  std::string joined;
  joined.reserve(source.size());
  std::size_t owed = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\') {
      std::size_t end = i + 1;
      while (end < source.size() && is_blank(source[end]))
        ++end;
      if (end < source.size() && source[end] == '\n') {
        ++owed;
        i = end;
        continue;
      }
    }
    joined += source[i];
    if (source[i] == '\n') {
      joined.append(owed, '\n');
      owed = 0;
    }
  }
  return joined;
}

expected<std::vector<token>> tokens_of(std::string_view source) {
  return tokenizer(source).run();
}

}  // namespace cudal1
