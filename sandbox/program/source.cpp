#include "sandbox/program/source.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "config/base/utf8.hpp"
#include "sandbox/program/scanner.hpp"

namespace cudal1 {

namespace {

tl::unexpected<error> refuse_line(std::size_t line, std::string_view why) {
  return fail(errc::invalid_program, "source line {}: {}", line, why);
}

template <std::size_t N>
bool is_one_of(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// What is wrong with the characters at source[i]; "" for nothing.
std::string problem_of_characters(std::string_view source, std::size_t i) {
  const auto u = static_cast<unsigned char>(source[i]);
  if ((u < 0x20 && u != '\n' && u != '\t') || u == 0x7f)
    return fmt::format("the control character {:#04x} is not allowed", u);
  if (u == '?' && source.substr(i, 2) == "??" && i + 2 < source.size() &&
      std::string_view("=/'()!<>-").find(source[i + 2]) != std::string_view::npos)
    return fmt::format("the trigraph {} is not allowed", source.substr(i, 3));
  if (u == '\\') {
    const auto next = source.find_first_not_of(" \t", i + 1);
    if (next == std::string_view::npos || (source[next] == '\n' && next != i + 1))
      return "a backslash before blanks at a line's end is not allowed";
  }
  return "";
}

expected<void> check_characters(std::string_view source) {
  if (!is_valid_utf8(source)) return fail(errc::invalid_program, "source: is not valid UTF-8");
  for (std::size_t i = 0; i < source.size(); ++i)
    if (const auto why = problem_of_characters(source, i); !why.empty())
      return refuse_line(1 + static_cast<std::size_t>(
                                 std::count(source.begin(), source.begin() + static_cast<std::ptrdiff_t>(i), '\n')),
                         why);
  return {};
}

// Why a token is not allowed in a program; "" where it is. `rest`: the source from the token on.
std::string problem_of_token(const token& t, std::string_view rest) {
  static constexpr std::array<std::string_view, 5> forbidden{"__has_include", "__has_include_next", "__has_embed",
                                                             "_Pragma", "__pragma"};
  static constexpr std::array<std::string_view, 5> raw{"R", "LR", "uR", "UR", "u8R"};
  switch (t.kind) {
    case token_kind::unclosed_comment:
      return "the comment is not closed";
    case token_kind::unclosed_text:
      return t.text.front() == '"' ? "the string is not closed" : "the character literal is not closed";
    case token_kind::identifier:
      if (is_one_of(t.text, forbidden)) return fmt::format("{} is not allowed", t.text);
      return is_one_of(t.text, raw) && rest.substr(t.text.size()).starts_with('"') ? "raw strings are not allowed" : "";
    case token_kind::punctuation:
      if (t.is("\\")) return "a backslash outside of a literal is not allowed";
      if (static_cast<unsigned char>(t.text.front()) >= 0x80)
        return "characters other than ASCII are allowed in comments and strings only";
      return rest.starts_with("%:") ? "the digraph %: is not allowed" : "";
    default:
      return "";
  }
}

// The tokens of `source`, including the words of preprocessor lines; an error where one is illegal. `joined` is
// join_lines(source).
expected<std::vector<token>> legal_tokens(std::string_view source, const joined_source& joined) {
  CUDAL1_CHECK(check_characters(source));
  auto tokens = scan(joined.text, directive_form::words);
  for (const auto& t : tokens)
    if (const auto why = problem_of_token(t, std::string_view(joined.text).substr(t.begin)); !why.empty())
      return refuse_line(joined.line_of(t.begin), why);
  return tokens;
}

// The content of a literal does not matter to any rule.
std::string without_content(const token& t) {
  return t.kind == token_kind::text ? std::string(2, t.text.front()) : std::string(t.text);
}

// The text after `#include`, as a preprocessor sees it.
std::string text_after_include(std::string_view text, std::span<const token> rest, std::size_t begin) {
  std::string seen;
  for (const auto& t : rest) {
    seen += text.substr(begin, t.begin - begin);
    const bool is_path = t.text.front() == '"' && seen.find_first_not_of(" \t\n") == std::string::npos;
    if (t.kind == token_kind::comment)
      seen += t.text.starts_with("/*") ? " " : "";
    else
      seen += is_path ? std::string(t.text) : without_content(t);
    begin = t.end;
  }
  return seen += text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

// `rest`: the text after `#include`.
expected<void> check_include(std::string_view rest, std::size_t line) {
  const auto first = std::min(rest.find_first_not_of(" \t\n"), rest.size());
  auto path = rest.substr(first, rest.find_last_not_of(" \t\n") + 1 - first);
  const bool closed =
      path.size() > 2 && ((path.front() == '<' && path.back() == '>') || (path.front() == '"' && path.back() == '"'));
  if (!closed) return refuse_line(line, "#include: should name a header, such as <cub/cub.cuh>");
  path = path.substr(1, path.size() - 2);
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) {
    return !leading_word({&c, 1}).empty() || std::string_view("/.+-").find(c) != std::string_view::npos;
  });
  if (!plain || path.front() == '/' || path.find("..") != std::string_view::npos)
    return refuse_line(line,
                       fmt::format("#include {}: a header has a relative path without \"..\", such as <cub/cub.cuh>",
                                   rest.substr(0, 80)));
  return {};
}

// `words`: the tokens after the '#' at `at`. The line is counted for an error only: a large source has thousands of
// `#pragma unroll`.
expected<void> check_directive(const joined_source& joined, std::span<const token> words, std::size_t at,
                               std::span<const std::string> headers) {
  static constexpr std::array<std::string_view, 9> allowed{"define", "undef", "if",    "ifdef", "ifndef",
                                                           "elif",   "else",  "endif", "pragma"};
  const auto line = [&] { return joined.line_of(at); };
  const auto is_comment = [](const token& t) { return t.kind == token_kind::comment; };
  const auto first = std::find_if_not(words.begin(), words.end(), is_comment);
  const auto second = first == words.end() ? first : std::find_if_not(first + 1, words.end(), is_comment);
  const auto directive = first == words.end() ? std::string_view() : leading_word(first->text);
  const auto subject = second == words.end() ? std::string_view() : leading_word(second->text);
  if (directive == "include" && !headers.empty())
    return check_include(text_after_include(joined.text, {first + 1, words.end()}, first->end), line());
  if (directive.starts_with("include"))
    return refuse_line(
        line(),
        "#include is not allowed: the device's prologue has all that a kernel may use, and a program that "
        "needs CUDA's libraries names them as \"headers\" in its head; remove the line, or write, for "
        "cuda_fp16.h or mma.h on a GPU, \"headers\": [\"cuda\"]");
  if (!is_one_of(directive, allowed))
    return refuse_line(
        line(), fmt::format("#{} is not allowed (only #define, #undef, #if and the like, #pragma unroll)", directive));
  if (directive == "pragma" && subject != "unroll")
    return refuse_line(line(), fmt::format("#pragma {} is not allowed, only #pragma unroll", subject));
  if ((directive == "define" || directive == "undef") && subject.starts_with("__"))
    return refuse_line(line(),
                       fmt::format("#{} {}: names that begin with two underscores are reserved", directive, subject));
  return {};
}

// "const float * __restrict__  a = 0" -> {"const float* __restrict__ a", "const float*", true}
kernel_parameter read_parameter(std::span<const token> tokens) {
  static constexpr std::array<std::string_view, 3> restricts{"__restrict__", "__restrict", "restrict"};
  const auto is_word = [](std::string_view word) { return !word.empty() && leading_word(word) == word; };
  kernel_parameter p;
  std::vector<std::string> type;
  for (const auto& t : tokens) {
    const std::string whole = without_content(t);
    const std::string word = whole.substr(0, whole.find('='));  // a default value is not part of the type
    if (!word.empty()) {
      p.text += (p.text.empty() || leading_word(word).empty() ? "" : " ") + word;
      p.is_pointer = p.is_pointer || word == "*" || word == "[";
      if (!is_one_of(word, restricts)) type.push_back(word);
    }
    if (word.size() < whole.size()) break;
  }
  if (!std::all_of(type.begin(), type.end(), [&](const auto& t) { return is_word(t) || t == "*"; })) return p;
  if (type.size() > 1 && is_word(type.back())) type.pop_back();  // the parameter's name
  for (const auto& t : type)
    p.type += (p.type.empty() || t == "*" ? "" : " ") + t;
  return p;
}

// Splits at commas outside of all brackets, including the angle brackets of templates.
std::vector<kernel_parameter> read_parameters(std::span<const token> list) {
  if (list.empty() || (list.size() == 1 && list.front().is("void"))) return {};
  std::vector<kernel_parameter> parameters;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].kind != token_kind::punctuation) continue;
    if (list[i].is(",") && depth == 0) {
      parameters.push_back(read_parameter(list.subspan(start, i - start)));
      start = i + 1;
    }
    for (const char c : list[i].text) {
      if (c == '(' || c == '[' || c == '<' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '>' || c == '}') --depth;
    }
  }
  parameters.push_back(read_parameter(list.subspan(start)));
  return parameters;
}

// The body of a function whose parameters end before `at`; empty for a prototype.
std::span<const token> body_behind(std::span<const token> tokens, std::size_t at) {
  if (at >= tokens.size() || !tokens[at].is("{")) return {};
  const auto end = after_matching_bracket(tokens, at);
  return end > tokens.size() ? std::span<const token>() : tokens.subspan(at, end - at);
}

// `extern __shared__ float buffer[]` -> "buffer"
std::string dynamic_shared_in(std::span<const token> body) {
  for (std::size_t i = 0; i + 1 < body.size(); ++i) {
    if (!body[i].is("extern") || !body[i + 1].is("__shared__")) continue;
    for (std::size_t j = i + 2; j + 1 < body.size() && !body[j].is(";"); ++j)
      if (body[j].is_name() && body[j + 1].is("[")) return std::string(body[j].text);
  }
  return "";
}

// `tokens` are without comments.
std::vector<kernel_signature> kernels_among(std::span<const token> tokens) {
  std::vector<kernel_signature> kernels;
  std::size_t at = 0;
  const auto opens = [&] { return at < tokens.size() && tokens[at].is("("); };
  const auto next_name = [&] { return at < tokens.size() && tokens[at].is_name() ? tokens[at++].text : ""; };
  const auto next_behind_bounds = [&] {
    auto name = next_name();
    while ((name == "__launch_bounds__" || name == "__cluster_dims__") && opens()) {
      const auto end = after_matching_bracket(tokens, at);
      if (end > tokens.size()) break;
      at = end;
      name = next_name();
    }
    return name;
  };
  while (at < tokens.size()) {
    if (!tokens[at++].is("__global__") || next_behind_bounds() != "void") continue;
    const auto name = next_behind_bounds();
    const auto end = !name.empty() && opens() ? after_matching_bracket(tokens, at) : tokens.size() + 1;
    if (end > tokens.size()) continue;
    const auto body = body_behind(tokens, end);
    kernels.push_back({std::string(name), read_parameters(tokens.subspan(at + 1, end - at - 2)),
                       dynamic_shared_in(body),
                       std::ranges::any_of(body, [](const token& t) { return t.is("grid_sync"); })});
    at = end;
  }
  return kernels;
}

}  // namespace

expected<void> check_source(std::string_view source, std::span<const std::string> headers) {
  const auto joined = join_lines(source);
  CUDAL1_TRY(const auto tokens, legal_tokens(source, joined));
  for (auto at = tokens.begin(); at != tokens.end();) {
    const auto end = std::find_if(at + 1, tokens.end(), [](const token& t) { return t.begins_line; });
    if (at->begins_line && at->is("#")) CUDAL1_CHECK(check_directive(joined, {at + 1, end}, at->begin, headers));
    at = end;
  }
  return {};
}

bool uses_atomics(std::string_view source) {
  for (const std::string_view word : {"atomic", "atom.", "red."})
    if (source.find(word) != std::string_view::npos) return true;
  return false;
}

bool calls(std::string_view source, std::string_view word) {
  for (auto at = source.find(word); at != std::string_view::npos; at = source.find(word, at + 1)) {
    const auto next = source.find_first_not_of(" \t\r\n", at + word.size());
    if (next != std::string_view::npos && source[next] == '(') return true;
  }
  return false;
}

expected<std::vector<kernel_signature>> find_kernels(std::string_view source) {
  const auto joined = join_lines(source);
  CUDAL1_TRY(auto tokens, legal_tokens(source, joined));
  std::erase_if(tokens, [](const token& t) { return t.kind == token_kind::comment; });
  return kernels_among(tokens);
}

}  // namespace cudal1
