#include "sandbox/cuda/compiler/ptx.hpp"

#include <algorithm>

namespace cudal1 {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
         c == '.' || c == '%';
}

class parser {
 public:
  explicit parser(std::string_view text) : text_(text) {}

  expected<ptx_module> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        ++at_;
      } else if (c == '/' && next() == '/') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '"') {
        CUDAL1_CHECK(string());
      } else if (is_word(c)) {
        word();
      } else {
        CUDAL1_CHECK(punctuation(c));
      }
    }
    // The module's own directives have no semicolon: they are a statement with what follows, if anything does.
    const bool is_empty = !statement_.words.empty() && statement_.words.front() == ".version" && !is_function_head();
    if (depth_ != 0 || !(statement_.words.empty() || is_empty)) return fail(errc::corrupt, "the PTX is incomplete");
    return std::move(module_);
  }

 private:
  char next() const { return at_ + 1 < text_.size() ? text_[at_ + 1] : '\0'; }

  void add(std::size_t bytes) {
    if (statement_.words.empty()) begin_ = at_;
    statement_.words.push_back(text_.substr(at_, bytes));
    at_ += bytes;
  }

  // `L2::evict_last` is one word; the single colon of a label does not belong to one.
  void word() {
    auto end = at_;
    while (end < text_.size() && (is_word(text_[end]) || text_.substr(end, 2) == "::"))
      end += text_[end] == ':' ? 2 : 1;
    add(end - at_);
  }

  expected<void> string() {
    const auto end = text_.find_first_of("\"\n\\", at_ + 1);
    if (end == std::string_view::npos || text_[end] != '"')
      return fail(errc::refused, "inline assembly with a string that does not end on its line is refused");
    add(end + 1 - at_);
    return {};
  }

  expected<void> punctuation(char c) {
    if (c == '#' || c == '\\' || c == '`' || (c == '/' && next() == '*'))
      return fail(errc::refused,
                  "inline assembly with \"{}\" is refused: comments of C, preprocessor lines and backslashes are not "
                  "part of it",
                  text_.substr(at_, c == '/' ? 2 : 1));
    if (c == '@' && statement_.words.empty()) {
      skip_guard();
    } else if (c == ';') {
      finish();
      ++at_;
    } else if (c == ':' && statement_.words.size() == 1) {
      // A label; what follows it (.branchtargets, .callprototype, an instruction) is a separate statement.
      statement_.words.clear();
      ++at_;
    } else if (c == '{' && (statement_.words.empty() || is_function_head())) {
      open();
    } else if (c == '}' && statement_.words.empty()) {
      if (depth_ == 0) return fail(errc::corrupt, "the PTX closes a block that it did not open");
      if (--depth_ == 0) function_ = -1;
      ++at_;
    } else {
      add(1);
    }
    return {};
  }

  void skip_guard() {
    ++at_;
    while (at_ < text_.size() && (text_[at_] == '!' || text_[at_] == ' '))
      ++at_;
    while (at_ < text_.size() && is_word(text_[at_]))
      ++at_;
  }

  bool is_function_head() const {
    return depth_ == 0 && std::any_of(statement_.words.begin(), statement_.words.end(),
                                      [](std::string_view w) { return w == ".entry" || w == ".func"; });
  }

  void open() {
    const bool starts_function = is_function_head();
    finish();
    if (starts_function) function_ = static_cast<int>(module_.functions.size()) - 1;
    ++depth_;
    ++at_;
  }

  // `.visible .entry NAME(...)`, `.extern .func (.param .b32 r) NAME (...)`
  void note_function() {
    const auto& words = statement_.words;
    auto at = std::find_if(words.begin(), words.end(), [](auto w) { return w == ".entry" || w == ".func"; });
    ptx_function found;
    found.is_kernel = *at == ".entry";
    found.is_extern = std::find(words.begin(), at, ".extern") != at;
    ++at;
    for (; at != words.end() && (at->starts_with('.') || *at == "("); ++at)
      if (*at == "(") at = std::find(at, words.end(), ")");
    if (at != words.end()) found.name = *at;
    module_.functions.push_back(found);
  }

  void finish() {
    if (statement_.words.empty()) return;
    if (is_function_head()) note_function();
    statement_.function = function_;
    statement_.text = text_.substr(begin_, at_ - begin_);
    module_.statements.push_back(std::move(statement_));
    statement_ = {};
  }

  std::string_view text_;
  std::size_t at_ = 0, begin_ = 0;
  int depth_ = 0, function_ = -1;
  ptx_statement statement_;
  ptx_module module_;
};

}  // namespace

std::vector<std::vector<std::string_view>> ptx_statement::operands() const {
  std::vector<std::vector<std::string_view>> result;
  int depth = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto w = words[i];
    if (w == "(" || w == "[" || w == "{") ++depth;
    if (w == ")" || w == "]" || w == "}") --depth;
    if (w == "," && depth == 0) {
      result.emplace_back();
    } else {
      if (result.empty()) result.emplace_back();
      result.back().push_back(w);
    }
  }
  return result;
}

expected<ptx_module> parse_ptx(std::string_view text) {
  return parser(text).run();
}

}  // namespace cudal1
