#include "sandbox/program/source.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>

#include <fmt/format.h>

#include "config/base/utf8.hpp"

namespace cudal1 {

namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

std::size_t line_of(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

tl::unexpected<error> refuse(std::size_t line, std::string_view why) {
  return fail(errc::invalid_program, "source line {}: {}", line, why);
}

expected<void> check_characters(std::string_view source) {
  if (!is_valid_utf8(source)) return fail(errc::invalid_program, "source: is not valid UTF-8");
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto u = static_cast<unsigned char>(source[i]);
    if ((u < 0x20 && u != '\n' && u != '\t') || u == 0x7f)
      return refuse(line_of(source, i), fmt::format("the control character {:#04x} is not allowed", u));
    if (u == '?' && source.substr(i, 2) == "??" && i + 2 < source.size() &&
        std::string_view("=/'()!<>-").find(source[i + 2]) != std::string_view::npos)
      return refuse(line_of(source, i), fmt::format("the trigraph {} is not allowed", source.substr(i, 3)));
    if (u == '\\') {
      const auto next = source.find_first_not_of(" \t", i + 1);
      if (next == std::string_view::npos || (source[next] == '\n' && next != i + 1))
        return refuse(line_of(source, i), "a backslash before blanks at a line's end is not allowed");
    }
  }
  return {};
}

// Continued lines joined. `lines` gets the number of the source line that each character stands on.
std::string join_lines(std::string_view source, std::vector<std::size_t>& lines) {
  std::string joined;
  joined.reserve(source.size());
  std::size_t line = 1;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\\' && i + 1 < source.size() && source[i + 1] == '\n') {
      ++line, ++i;
      continue;
    }
    joined += source[i];
    lines.push_back(line);
    if (source[i] == '\n') ++line;
  }
  return joined;
}

// One pass over the joined text; `out` gets what is neither comment nor literal, `kept` the line of each character.
class stripper {
 public:
  explicit stripper(std::string_view source) : text_(join_lines(source, lines_)) {}

  expected<void> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '/' && next() == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '/' && next() == '*') {
        CUDAL1_CHECK(block_comment());
      } else if (c == '"' || c == '\'') {
        CUDAL1_CHECK(literal(c));
      } else if (is_digit(c) || (c == '.' && is_digit(next()))) {
        number();
      } else if (is_word(c)) {
        CUDAL1_CHECK(word());
      } else {
        CUDAL1_CHECK(character(c));
      }
    }
    return {};
  }
  std::string out;
  std::vector<std::size_t> kept;

 private:
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }
  void keep(char c) {
    out += c;
    kept.push_back(lines_[std::min(at_, lines_.size() - 1)]);
  }
  void keep_and_go() {
    keep(text_[at_]);
    ++at_;
  }
  tl::unexpected<error> refuse_here(std::string_view why) const {
    return refuse(lines_[std::min(at_, lines_.size() - 1)], why);
  }

  expected<void> block_comment() {
    const auto end = text_.find("*/", at_ + 2);
    if (end == std::string::npos) return refuse_here("the comment is not closed");
    keep(' ');
    at_ = end + 2;
    return {};
  }
  // Whether nothing but `#include` stands on this line so far: what follows is a path.
  bool after_include() const {
    const auto line = out.substr(out.rfind('\n') + 1);
    std::string words;
    std::copy_if(line.begin(), line.end(), std::back_inserter(words), [](char c) { return !is_blank(c); });
    return words == "#include";
  }
  expected<void> literal(char quote) {
    const bool path = quote == '"' && after_include();
    auto end = at_ + 1;
    while (end < text_.size() && text_[end] != quote && text_[end] != '\n')
      end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' ? 2 : 1;
    if (end >= text_.size() || text_[end] == '\n')
      return refuse_here(quote == '"' ? "the string is not closed" : "the character literal is not closed");
    keep(quote);
    for (auto i = at_ + 1; path && i < end; ++i)
      keep(text_[i]);
    keep(quote);
    at_ = end + 1;
    return {};
  }
  void number() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      const bool sign =
          (c == '+' || c == '-') && std::string_view("eEpP").find(text_[at_ - 1]) != std::string_view::npos;
      if (!is_word(c) && c != '.' && !(c == '\'' && is_word(next())) && !sign) break;
      keep_and_go();
    }
  }
  expected<void> word() {
    static constexpr std::string_view forbidden[] = {"__has_include", "__has_include_next", "__has_embed", "_Pragma",
                                                     "__pragma"};
    static constexpr std::string_view raw[] = {"R", "LR", "uR", "UR", "u8R"};
    auto end = at_;
    while (end < text_.size() && is_word(text_[end]))
      ++end;
    const auto found = std::string_view(text_).substr(at_, end - at_);
    if (std::find(std::begin(forbidden), std::end(forbidden), found) != std::end(forbidden))
      return refuse_here(fmt::format("{} is not allowed", found));
    if (end < text_.size() && text_[end] == '"' && std::find(std::begin(raw), std::end(raw), found) != std::end(raw))
      return refuse_here("raw strings are not allowed");
    while (at_ < end)
      keep_and_go();
    return {};
  }
  expected<void> character(char c) {
    if (c == '\\') return refuse_here("a backslash outside of a literal is not allowed");
    if (static_cast<unsigned char>(c) >= 0x80)
      return refuse_here("characters other than ASCII are allowed in comments and strings only");
    if (c == '%' && next() == ':') return refuse_here("the digraph %: is not allowed");
    keep_and_go();
    return {};
  }

  std::vector<std::size_t> lines_;
  std::string text_;
  std::size_t at_ = 0;
};

std::string_view first_word(std::string_view text) {
  std::size_t n = 0;
  while (n < text.size() && is_word(text[n]))
    ++n;
  return text.substr(0, n);
}

std::string_view without_leading_blanks(std::string_view text) {
  const auto start = text.find_first_not_of(" \t\n");
  return start == std::string_view::npos ? std::string_view() : text.substr(start);
}

// `rest`: what stands behind `#include`.
expected<void> check_include(std::string_view rest, std::size_t number) {
  auto path = without_leading_blanks(rest);
  while (!path.empty() && is_blank(path.back()))
    path.remove_suffix(1);
  const bool closed =
      path.size() > 2 && ((path.front() == '<' && path.back() == '>') || (path.front() == '"' && path.back() == '"'));
  if (!closed) return refuse(number, "#include: should name a header, as <cub/cub.cuh>");
  path = path.substr(1, path.size() - 2);
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    return is_word(c) || std::string_view("/.+-").find(c) != std::string_view::npos;
  });
  if (!plain || path.front() == '/' || path.find("..") != std::string_view::npos)
    return refuse(number, fmt::format("#include {}: a header has a relative path without \"..\", as <cub/cub.cuh>",
                                      rest.substr(0, 80)));
  return {};
}

// `line`: one logical line without leading blanks that begins with #.
expected<void> check_directive(std::string_view line, std::size_t number, bool may_include) {
  static constexpr std::string_view allowed[] = {"define", "undef", "if",    "ifdef", "ifndef",
                                                 "elif",   "else",  "endif", "pragma"};
  const auto rest = without_leading_blanks(line.substr(1));
  const auto directive = first_word(rest);
  if (directive == "include" && may_include) return check_include(rest.substr(directive.size()), number);
  if (directive.starts_with("include"))
    return refuse(number,
                  "#include is not allowed: the device's prologue has all that a kernel may use, and a program that "
                  "needs CUDA's libraries names them as \"headers\" in its head");
  if (std::find(std::begin(allowed), std::end(allowed), directive) == std::end(allowed))
    return refuse(
        number, fmt::format("#{} is not allowed (only #define, #undef, #if and their kin, #pragma unroll)", directive));
  const auto subject = first_word(without_leading_blanks(rest.substr(directive.size())));
  if (directive == "pragma" && subject != "unroll")
    return refuse(number, fmt::format("#pragma {} is not allowed, only #pragma unroll", subject));
  if ((directive == "define" || directive == "undef") && subject.starts_with("__"))
    return refuse(number,
                  fmt::format("#{} {}: names that begin with two underscores are the compiler's", directive, subject));
  return {};
}

// Reads tokens of stripped text for find_kernels.
class cursor {
 public:
  explicit cursor(std::string_view text) : text_(text) {}
  bool done() const { return at_ >= text_.size(); }
  void blanks() {
    while (!done() && is_blank(text_[at_]))
      ++at_;
  }
  std::string_view word() {
    blanks();
    const auto found = first_word(text_.substr(at_));
    at_ += found.size();
    return found;
  }
  // The text between a parenthesis and its partner; false where none opens here or it stays open.
  bool parenthesised(std::string_view& inside) {
    blanks();
    if (done() || text_[at_] != '(') return false;
    int depth = 0;
    for (auto i = at_; i < text_.size(); ++i) {
      if (text_[i] == '(') ++depth;
      if (text_[i] == ')' && --depth == 0) {
        inside = text_.substr(at_ + 1, i - at_ - 1);
        at_ = i + 1;
        return true;
      }
    }
    return false;
  }
  void skip_one() { ++at_; }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

// "const float * __restrict__  a = 0" -> {"const float* a...", "const float*", true}
kernel_parameter read_parameter(std::string_view text) {
  text = text.substr(0, text.find('='));
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < text.size();) {
    if (is_blank(text[i])) {
      ++i;
    } else if (const auto w = first_word(text.substr(i)); !w.empty()) {
      tokens.emplace_back(w);
      i += w.size();
    } else {
      tokens.emplace_back(1, text[i++]);
    }
  }
  kernel_parameter p;
  for (const auto& t : tokens)
    p.text += (p.text.empty() || !is_word(t.front()) ? "" : " ") + t;
  p.is_pointer = std::any_of(tokens.begin(), tokens.end(), [](const auto& t) { return t == "*" || t == "["; });
  std::vector<std::string> type;
  for (const auto& t : tokens)
    if (t != "__restrict__" && t != "__restrict" && t != "restrict") type.push_back(t);
  const bool simple =
      std::all_of(type.begin(), type.end(), [](const auto& t) { return is_word(t.front()) || t == "*"; });
  if (!simple) return p;
  if (type.size() > 1 && is_word(type.back().front())) type.pop_back();  // the parameter's name
  for (const auto& t : type)
    p.type += (p.type.empty() || t == "*" ? "" : " ") + t;
  return p;
}

// Split at commas outside of any brackets.
std::vector<kernel_parameter> read_parameters(std::string_view list) {
  std::vector<kernel_parameter> parameters;
  int depth = 0;
  std::size_t start = 0;
  const auto take = [&](std::size_t end) {
    const auto one = without_leading_blanks(list.substr(start, end - start));
    start = end + 1;
    return parameters.push_back(read_parameter(one));
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == '(' || c == '[' || c == '<' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '>' || c == '}') --depth;
    if (c == ',' && depth == 0) take(i);
  }
  const auto last = without_leading_blanks(list.substr(std::min(start, list.size())));
  const bool none =
      parameters.empty() && (last.empty() || first_word(last) == last.substr(0, last.find_last_not_of(" \t\n") + 1));
  if (none && (last.empty() || first_word(last) == "void")) return parameters;
  take(list.size());
  return parameters;
}

}  // namespace

expected<std::string> strip_source(std::string_view source) {
  CUDAL1_CHECK(check_characters(source));
  stripper s(source);
  CUDAL1_CHECK(s.run());
  return std::move(s.out);
}

expected<void> check_source(std::string_view source, bool may_include) {
  if (source.empty()) return {};
  CUDAL1_CHECK(check_characters(source));
  stripper s(source);
  CUDAL1_CHECK(s.run());
  const std::string_view text = s.out;
  for (std::size_t start = 0; start < text.size();) {
    const auto end = std::min(text.find('\n', start), text.size());
    const auto line = without_leading_blanks(text.substr(start, end - start));
    if (line.starts_with('#'))
      CUDAL1_CHECK(check_directive(line, s.kept[static_cast<std::size_t>(line.data() - text.data())], may_include));
    start = end + 1;
  }
  return {};
}

std::vector<kernel_signature> find_kernels(std::string_view stripped) {
  std::vector<kernel_signature> kernels;
  cursor c(stripped);
  while (!c.done()) {
    const auto w = c.word();
    if (w.empty()) {
      c.skip_one();
      continue;
    }
    if (w != "__global__") continue;
    std::string_view inside, name = c.word();
    const auto skip_bounds = [&] {
      if (name == "__launch_bounds__" && c.parenthesised(inside)) name = c.word();
    };
    skip_bounds();
    if (name != "void") continue;
    name = c.word();
    skip_bounds();
    if (name.empty() || !c.parenthesised(inside)) continue;
    kernels.push_back({std::string(name), read_parameters(inside)});
  }
  return kernels;
}

}  // namespace cudal1
